// The flags of `roostctl doctor`.
#include "deploy/roostctl/doctor/doctor.h"

namespace roost::roostctl {
namespace {

int RunDoctorCommand(Arguments arguments, const Console& console) {
  DoctorOptions options;
  ConfigParser parser(
      "roostctl doctor",
      "Checks a deployment: addresses, keys, certificates, clocks, limits, releases, workers, tokenizers, "
      "and whether a prompt that is sent twice is found in the cache as expected. Says what to do for "
      "each finding. Exits with 0, with 1 for a warning and with 2 for a failure.");
  DeclareRouter(options.router, parser);
  parser.Section("Addresses")
      .Add("admin", options.admin_url, "URL of the router's admin address")
      .Add("admin-api-key-file", options.admin_key_file,
           "File whose first line is the key for the admin and metrics addresses; by default that of --api-key-file")
      .Add("metrics", options.metrics_url, "URL of the router's metrics address")
      .AddList("more-routers", options.more_routers, "URLs of the other routers")
      .AddList("more-admins", options.more_admins, "URLs of the other routers' admin addresses, in the same order")
      .AddList("worker-metrics", options.worker_urls, "URLs of workers' metrics addresses");
  parser.Section("Options")
      .Add("model", options.model, "Model to try; the router's first when empty")
      .Add("model-folder", options.model_folder, "Folder of that model, to compare its tokenizer with the routers'")
      .AddSwitch("no-requests", options.sends_no_requests, "Do not send the two requests that workers compute")
      .AddSwitch("json", options.json, "Print JSON");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  return RunDoctor(options, console.out);
}

}  // namespace

const Command kDoctorCommand{"doctor", "check a deployment and say what to do", &RunDoctorCommand};

}  // namespace roost::roostctl
