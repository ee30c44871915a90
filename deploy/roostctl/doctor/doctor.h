// `roostctl doctor`: checks a deployment from outside, as an operator and as a client, and says what to do.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "deploy/roostctl/command.h"
#include "deploy/roostctl/doctor/finding.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

struct DoctorOptions {
  // The common settings of all addresses (authorities, client certificate) are those of `router`.
  RouterAccess router;
  std::string admin_url = kDefaultAdminUrl;
  std::string admin_key_file;  // empty: the router's key
  std::string metrics_url = "http://127.0.0.1:8002";
  std::vector<std::string> more_routers;  // URLs of the other routers' APIs
  std::vector<std::string> more_admins;   // and of their admin addresses
  std::vector<std::string> worker_urls;   // of workers' metrics addresses
  std::string model;                      // empty: the router's first
  std::string model_folder;               // to read a prompt with; empty: none
  bool sends_no_requests = false;         // nothing is computed on any worker
  bool json = false;
};

// Asks all daemons; takes a few seconds.
[[nodiscard]] Findings Examine(const DoctorOptions& options);

// Prints the findings. Returns the exit code: see ExitCodeOf.
int RunDoctor(const DoctorOptions& options, std::ostream& out);

extern const Command kDoctorCommand;

}  // namespace roost::roostctl
