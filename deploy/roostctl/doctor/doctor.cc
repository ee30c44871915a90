#include "deploy/roostctl/doctor/doctor.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <optional>
#include <ostream>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/json_writer.h"
#include "common/base/random_seed.h"
#include "common/base/rng.h"
#include "common/prefix/block_hash.h"
#include "deploy/roostctl/doctor/checks.h"
#include "deploy/roostctl/prompt_tokenizer.h"
#include "deploy/roostctl/remote/chat_stream.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"

namespace roost::roostctl {
namespace {

constexpr double kCheckPatienceSeconds = 10;
constexpr double kAnswerSeconds = 120;
// Words, digits, several scripts, spaces and marks: what tokenizers treat differently.
constexpr std::string_view kPrompt =
    "The hen roosts at 21:47, and lays 3.14 eggs.\n\n\t\"C'est l'été\" — naïve façade; 日本語のテキスト, русский "
    "текст, 🐔👩‍🌾! "
    "def f(x): return x**2  # don't    collapse   spaces; MixedCase_and-dashes/slashes; 1,234,567.89 €";

std::int64_t UnixNow() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// An address with what belongs to all.
struct Place {
  std::string name;  // "api", "admin", "metrics", "worker"
  RouterAccess access;
};

// "takes requests: 2 workers are ready", as /ready says.
std::string ReadyText(const std::string& body) {
  const std::uint64_t count = CountAt(json::Document(body).root(), "ready_workers");
  return fmt::format("takes requests: {} worker{} ready", count, count == 1 ? " is" : "s are");
}

class Doctor {
 public:
  explicit Doctor(const DoctorOptions& options) : options_(options) {
    api_ = PlaceOf("api", options.router.url);
    admin_ = PlaceOf("admin", options.admin_url);
    metrics_ = PlaceOf("metrics", options.metrics_url);
  }

  Findings Run() {
    const bool has_api = CheckApi(api_);
    const bool has_admin = CheckAdmin();
    CheckDaemonMetrics(metrics_, DaemonKind::kRouter);
    for (const std::string& url : options_.worker_urls) CheckDaemonMetrics(PlaceOf("worker", url), DaemonKind::kWorker);
    for (const std::string& url : options_.more_routers) static_cast<void>(CheckApi(PlaceOf("api", url)));
    for (const std::string& url : options_.more_admins) CheckOtherAdmin(PlaceOf("admin", url));
    if (has_admin) CheckTransfers();
    if (has_admin) CheckTemplates();
    if (!has_api || !FindModel()) return std::move(findings_);
    CheckPrompt(has_admin);
    if (options_.sends_no_requests) {
      Add({Severity::kSkipped, "hits", api_.access.url, "--no-requests was given"});
    } else {
      CheckTrial(has_admin);
    }
    return std::move(findings_);
  }

 private:
  [[nodiscard]] Place PlaceOf(std::string name, const std::string& url) const {
    Place place{.name = std::move(name), .access = options_.router};
    // A worker's log line says where its metrics are, with their path.
    constexpr std::string_view kMetrics = "/metrics";
    place.access.url = url.ends_with(kMetrics) ? url.substr(0, url.size() - kMetrics.size()) : url;
    if (place.name != "api" && !options_.admin_key_file.empty()) {
      place.access.api_key.clear();
      place.access.api_key_file = options_.admin_key_file;
    }
    return place;
  }

  void Add(Finding finding) { findings_.push_back(std::move(finding)); }

  // The answer with status 200; otherwise a finding.
  std::optional<HttpResponse> Ask(const Place& place, const std::string& path, std::string_view advice) {
    HttpClient client(place.access, kCheckPatienceSeconds);
    const Result<HttpResponse> response = client.Get(path);
    if (response.ok() && response->status == 200) return *response;
    const std::string hint = response.ok() ? OtherAddressHint(*response) : "";
    if (!hint.empty()) {
      Add({Severity::kFailure, place.name, place.access.url, fmt::format("has no {}", path), hint});
      return std::nullopt;
    }
    const std::string why = response.ok() ? RefusalOf(*response).ToString() : response.error().ToString();
    Add({Severity::kFailure, place.name, place.access.url, why, std::string(advice)});
    return std::nullopt;
  }

  // ---- one address ----

  bool CheckApi(const Place& place) {
    const auto health = Ask(place, "/health", "is the router started, and is this its --http-address?");
    if (!health) return false;
    CheckTimeOf(place, *health);
    CheckTlsOf(place);
    CheckOpen(place, "/v1/models", "use the models");
    const auto version = Ask(place, "/version", "give --api-key-file with a key of the router's --api-keys");
    if (!version) return false;
    if (const json::Document body(version->body); body.ok()) {
      const std::string release(TextAt(body.root(), "/version"));
      if (release_.empty()) release_ = release;
      Add(CheckRelease(place.access.url, release, Version()));
    }
    HttpClient client(place.access, kCheckPatienceSeconds);
    const Result<HttpResponse> ready = client.Get("/ready");
    if (ready.ok() && ready->status == 200) {
      Add({Severity::kOk, "ready", place.access.url, ReadyText(ready->body)});
    } else {
      Add({Severity::kFailure, "ready", place.access.url,
           ready.ok() ? RefusalOf(*ready).message : ready.error().ToString(), "see what is said of the workers"});
    }
    return true;
  }

  // Names the pairs of workers that fail.
  void CheckTransfers() {
    HttpClient client(admin_.access, kCheckPatienceSeconds);
    const Result<HttpResponse> answer = client.Get("/admin/v1/transfers");
    if (!answer.ok() || answer->status != 200) return;
    for (Finding& finding : CheckPairs(answer->body)) Add(std::move(finding));
  }

  // Checks the parts of messages that models' chat templates leave out, as their router found.
  void CheckTemplates() {
    HttpClient client(admin_.access, kCheckPatienceSeconds);
    const Result<HttpResponse> answer = client.Get("/admin/v1/models");
    if (!answer.ok() || answer->status != 200) return;
    const json::Document body(answer->body);
    for (const json::Element model : json::ElementsAt(body.root(), "models")) {
      for (const json::Element loss : json::ElementsAt(model, "chat_template_losses")) {
        Add({Severity::kNote, "template", std::string(TextAt(model, "/id")),
             fmt::format("its chat template {}", TextAt(loss, ""))});
      }
    }
  }

  bool CheckAdmin() {
    const auto workers =
        Ask(admin_, "/admin/v1/workers",
            "is this the router's --admin-address, and has --admin-api-key-file a key of its --admin-keys?");
    if (!workers) return false;
    CheckTlsOf(admin_);
    CheckOpen(admin_, "/admin/v1/workers", "see prompts' prefixes, pin, evict and cordon");
    CheckApart();
    Result<std::vector<WorkerFacts>> facts = ReadWorkerFacts(workers->body);
    if (!facts.ok()) {
      Add({Severity::kFailure, "admin", admin_.access.url, facts.error().ToString()});
      return false;
    }
    workers_ = *std::move(facts);
    for (Finding& finding : CheckWorkers(admin_.access.url, workers_, release_)) Add(std::move(finding));
    for (Finding& finding : CheckModels(workers->body)) Add(std::move(finding));
    return true;
  }

  // Operators' routes must not stand where clients come.
  void CheckApart() {
    if (admin_.access.url == api_.access.url) return;
    HttpClient client(api_.access, kCheckPatienceSeconds);
    const Result<HttpResponse> response = client.Get("/admin/v1/workers");
    if (!response.ok() || response->status != 200) return;
    Add({Severity::kFailure, "door", api_.access.url, "operators' routes answer at the clients' address",
         "is something else in front of the router? it serves them at --admin-address alone"});
  }

  void CheckOtherAdmin(const Place& place) {
    const auto answer = Ask(place, "/admin/v1/workers", "is this the other router's --admin-address?");
    if (!answer) return;
    const Result<std::vector<WorkerFacts>> facts = ReadWorkerFacts(answer->body);
    if (facts.ok()) Add(CheckSameWorkers(admin_.access.url, workers_, place.access.url, *facts));
  }

  void CheckDaemonMetrics(const Place& place, DaemonKind kind) {
    const auto answer = Ask(place, "/metrics",
                            kind == DaemonKind::kRouter ? "is this the router's --metrics-address?"
                                                        : "is this the worker's --metrics-address?");
    if (!answer) return;
    CheckTimeOf(place, *answer);
    for (Finding& finding : CheckMetrics(place.access.url, kind, MetricsText(answer->body))) Add(std::move(finding));
    if (kind == DaemonKind::kRouter) return;
    HttpClient client(place.access, kCheckPatienceSeconds);
    const Result<HttpResponse> ready = client.Get("/ready");
    if (!ready.ok()) return;
    for (Finding& finding : CheckLinks(place.access.url, ready->body)) Add(std::move(finding));
  }

  void CheckTimeOf(const Place& place, const HttpResponse& response) {
    const std::int64_t now = UnixNow();
    const auto date = response.headers.find("date");
    const std::time_t theirs = date == response.headers.end() ? -1 : curl_getdate(date->second.c_str(), nullptr);
    if (theirs < 0) {
      Add({Severity::kSkipped, "clock", place.access.url, "its answers have no date: it is of an older release"});
    } else {
      Add(CheckClock(place.access.url, theirs, now));
    }
  }

  // The end of the certificate that a server shows first.
  void CheckTlsOf(const Place& place) {
    if (place.access.url.rfind("https:", 0) != 0) return;
    RouterCall call;
    call.Begin(place.access, "", {.path = "/health", .timeout_seconds = kCheckPatienceSeconds});
    curl_easy_setopt(call.handle(), CURLOPT_CERTINFO, 1L);
    const CURLcode code = call.Perform();
    curl_certinfo* chain = nullptr;
    if (code == CURLE_OK) curl_easy_getinfo(call.handle(), CURLINFO_CERTINFO, &chain);
    static_cast<void>(call.End(code));
    if (chain == nullptr || chain->num_of_certs == 0) return;
    constexpr std::string_view kField = "Expire date:";
    for (const curl_slist* line = chain->certinfo[0]; line != nullptr; line = line->next) {
      const std::string_view text = line->data;
      if (text.substr(0, kField.size()) != kField) continue;
      const std::time_t ends = curl_getdate(line->data + kField.size(), nullptr);
      if (ends >= 0) Add(CheckCertificate(place.access.url, ends, UnixNow()));
    }
  }

  void CheckOpen(const Place& place, const std::string& path, std::string what) {
    RouterAccess stranger = place.access;
    stranger.api_key.clear();
    stranger.api_key_file.clear();
    HttpClient client(stranger, kCheckPatienceSeconds);
    const Result<HttpResponse> response = client.Get(path);
    if (!response.ok() || !OtherAddressHint(*response).empty()) return;
    Add(CheckDoor({place.access.url, std::move(what), response->status}));
  }

  // ---- prompts ----

  bool FindModel() {
    model_ = options_.model;
    if (!model_.empty()) return true;
    const Result<std::string> first = FirstModel(api_.access);
    if (first.ok()) {
      model_ = *first;
    } else {
      // Its field may be the address, which is named already.
      Add({Severity::kFailure, "model", api_.access.url, first.error().message, "start a worker"});
    }
    return first.ok();
  }

  // Every router's reading, and the folder's, of one prompt.
  void CheckPrompt(bool has_admin) {
    std::vector<PromptReading> readings;
    std::vector<std::string> routers{api_.access.url};
    routers.insert(routers.end(), options_.more_routers.begin(), options_.more_routers.end());
    std::vector<std::string> admins{admin_.access.url};
    admins.insert(admins.end(), options_.more_admins.begin(), options_.more_admins.end());
    for (std::size_t i = 0; i < routers.size(); ++i) {
      const std::unique_ptr<PromptTokenizer> router = RouterTokenizer(PlaceOf("api", routers[i]).access, model_);
      Result<PromptReading> reading = ReadWith(*router, routers[i]);
      if (!reading.ok()) {
        Add({Severity::kFailure, "tokenizer", routers[i], reading.error().ToString(), "does it serve the same model?"});
        continue;
      }
      if (has_admin && i < admins.size()) reading->last_block_hash = LastHashAt(PlaceOf("admin", admins[i]));
      readings.push_back(*std::move(reading));
    }
    if (!options_.model_folder.empty()) ReadWithFolder(readings);
    if (readings.size() == 1) {
      Add({Severity::kSkipped, "tokenizer", readings[0].subject,
           "there is nothing to compare with: give --model-folder or --more-routers"});
    }
    for (Finding& finding : CheckReadings(readings)) Add(std::move(finding));
  }

  static PromptBody Body() {
    JsonWriter json;
    json.BeginObject().Key("prompt").String(kPrompt).EndObject();
    std::string text = json.Take();
    return {.name = "prompt", .members = text.substr(1, text.size() - 2), .cache_salt = {}};
  }

  static Result<PromptReading> ReadWith(PromptTokenizer& tokenizer, const std::string& subject) {
    PromptReading reading{.subject = subject, .tokens = {}, .last_block_hash = {}};
    ROOST_ASSIGN_OR_RETURN(reading.tokens, tokenizer.Tokenize(Body()));
    return reading;
  }

  // As the router names the last full block of the prompt.
  std::optional<std::string> LastHashAt(const Place& place) {
    JsonWriter body;
    body.BeginObject().Key("model").String(model_).Key("prompt").String(kPrompt).EndObject();
    HttpClient client(place.access, kCheckPatienceSeconds);
    const Result<HttpResponse> response = client.PostJson("/admin/v1/match", body.Take());
    if (!response.ok() || response->status != 200) return std::nullopt;
    const json::Document answer(response->body);
    const auto hash = json::At<std::string_view>(answer.root(), "last_block_hash");
    return hash ? std::optional<std::string>(*hash) : std::nullopt;
  }

  // Its hashes are in the scope of the first worker that serves the model: the folder's weights are not read.
  void ReadWithFolder(std::vector<PromptReading>& readings) {
    const WorkerFacts* worker = nullptr;
    for (const WorkerFacts& each : workers_) {
      if (each.model == model_ && worker == nullptr) worker = &each;
    }
    const std::uint32_t block_tokens = worker == nullptr ? 16 : static_cast<std::uint32_t>(worker->block_tokens);
    Result<std::unique_ptr<PromptTokenizer>> folder = FolderTokenizer(options_.model_folder, block_tokens);
    Result<PromptReading> reading = folder.ok() ? ReadWith(**folder, options_.model_folder) : folder.error();
    if (!reading.ok()) {
      Add({Severity::kFailure, "tokenizer", options_.model_folder, reading.error().ToString(),
           "is it the model's folder?"});
      return;
    }
    if (worker != nullptr && !worker->fingerprint.empty()) {
      const BlockHash root = RootHash({.fingerprint = worker->fingerprint,
                                       .adapter = {},
                                       .tenant = {},
                                       .salt = {},
                                       .block_tokens = block_tokens,
                                       .kv_dtype = worker->kv_dtype});
      const std::vector<BlockHash> hashes = HashBlocks(root, reading->tokens, block_tokens);
      if (!hashes.empty()) reading->last_block_hash = hashes.back().ToHex();
    }
    readings.push_back(*std::move(reading));
  }

  // ---- a trial ----

  // Sends a new prompt twice.
  void CheckTrial(bool has_admin) {
    Rng rng(RandomSeed());
    const std::string mark = fmt::format("doctor-{:016x}", rng());
    std::string prompt = mark;
    for (int i = 0; i < 60; ++i) prompt += fmt::format(" {} hens count {},", i, rng.Below(1000));
    HttpClient client(api_.access, kAnswerSeconds);
    HitTrial trial;
    trial.block_tokens = BlockTokens();
    for (int i = 0; i < 2; ++i) {
      JsonWriter body;
      body.BeginObject().Key("model").String(model_).Key("prompt").String(prompt).Key("max_tokens").Number(1);
      body.Key("temperature").Number(0).EndObject();
      const Result<HttpResponse> response = client.PostJson("/v1/completions", body.Take());
      if (!response.ok() || response->status != 200) {
        Add({Severity::kFailure, "request", api_.access.url,
             response.ok() ? RefusalOf(*response).ToString() : response.error().ToString(),
             "see what is said of the workers, and the router's log"});
        return;
      }
      TakeAnswer(*response, has_admin, trial);
    }
    Add({Severity::kOk, "request", api_.access.url, fmt::format("{} answered", trial.worker)});
    Add(CheckHits(trial));
  }

  // The size of the model's blocks, as the API tells clients; 0 when it does not.
  [[nodiscard]] std::uint64_t BlockTokens() const {
    HttpClient client(api_.access, kCheckPatienceSeconds);
    const Result<HttpResponse> response = client.Get("/v1/models/" + PercentEncode(model_));
    if (!response.ok() || response->status != 200) return 0;
    const json::Document model(response->body);
    return model.ok() ? CountAt(model.root(), "/block_tokens") : 0;
  }

  void TakeAnswer(const HttpResponse& response, bool has_admin, HitTrial& trial) {
    const json::Document document(response.body);
    if (!document.ok()) return;
    const json::Element answer = document.root();
    trial.prompt_tokens = CountAt(answer, "/usage/prompt_tokens");
    trial.cached_tokens = CountAt(answer, "/usage/prompt_tokens_details/cached_tokens");
    const auto worker = response.headers.find("x-roost-worker");
    trial.worker = worker == response.headers.end() ? "?" : worker->second;
    for (const WorkerFacts& facts : workers_) {
      if (facts.name != trial.worker) continue;
      trial.block_tokens = facts.block_tokens;
      trial.mode = facts.mode;
    }
    if (has_admin) trial.predicted_tokens = PredictedOf(TextAt(answer, "/id"));
  }

  std::optional<std::uint64_t> PredictedOf(std::string_view id) {
    HttpClient client(admin_.access, kCheckPatienceSeconds);
    const Result<HttpResponse> response =
        client.Get(fmt::format("/admin/v1/decisions?request_id={}", PercentEncode(id)));
    if (!response.ok() || response->status != 200) return std::nullopt;
    return json::At<std::uint64_t>(json::Document(response->body).root(), "/decisions/0/predicted/cached_tokens");
  }

  const DoctorOptions& options_;
  Place api_;
  Place admin_;
  Place metrics_;
  std::string release_;  // of the first router
  std::string model_;
  std::vector<WorkerFacts> workers_;  // as the first router knows them
  Findings findings_;
};

}  // namespace

Findings Examine(const DoctorOptions& options) { return Doctor(options).Run(); }

int RunDoctor(const DoctorOptions& options, std::ostream& out) {
  const Findings findings = Examine(options);
  out << (options.json ? FindingsJson(findings) : FormatFindings(findings));
  return ExitCodeOf(findings);
}

}  // namespace roost::roostctl
