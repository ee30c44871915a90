// roost_stepper SHAPE THREADS: steps of a model on command, for measurements that change the machine between them
// (neighbours.py). Each line of standard input is a command; the answer is a line with the milliseconds of each run.
//
//   decode N     N decode steps behind 512 tokens
//   prefill N    N times 512 tokens
//   for S        decode steps for S seconds
//
// With 0 threads it takes as many as a worker would, and fewer while other processes keep the processors busy; each
// change is a line of standard error.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/cpu_limit.h"
#include "tests/bench/model_run.h"

namespace roost::bench {
namespace {

constexpr std::uint32_t kPrompt = 512;

double MillisecondsOf(ModelRun& model, std::string_view command) {
  const SteadyClock clock;
  const Instant start = clock.Now();
  if (command == "prefill") {
    model.Run(0, kPrompt);
  } else {
    model.Run(kPrompt, kPrompt + 1);
  }
  return ToSeconds(clock.Now() - start) * 1e3;
}

void Answer(ModelRun& model, std::string_view command, double amount) {
  double total = 0;
  for (double done = 0; done < amount;) {
    const double milliseconds = MillisecondsOf(model, command);
    total += milliseconds;
    fmt::print("{:.4f} ", milliseconds);
    done = command == "for" ? total / 1e3 : done + 1;
  }
  fmt::print("\n");
  (void)std::fflush(stdout);
}

int Main(std::string_view shape, std::string_view threads) {
  std::uint32_t thread_count = 0;
  const auto [end, error] = std::from_chars(threads.data(), threads.data() + threads.size(), thread_count);
  const auto config = shape == "demo" ? DemoLike() : worker::SyntheticConfig(std::string(shape));
  if (!config || error != std::errc()) {
    fmt::print(stderr, "roost_stepper: no shape '{}' with {} threads\n", shape, threads);
    return 64;
  }
  const auto tell = [](std::uint32_t in_use) { fmt::print(stderr, "{} threads\n", in_use); };
  ModelRun model = thread_count > 0 ? ModelRun(*config, kPrompt + 1, thread_count)
                                    : ModelRun(*config, kPrompt + 1, UsableCpuCount(), tell);
  model.Run(0, kPrompt);
  fmt::print("ready\n");
  (void)std::fflush(stdout);
  std::string command;
  double amount = 0;
  while (std::cin >> command >> amount) Answer(model, command, amount);
  return 0;
}

}  // namespace
}  // namespace roost::bench

int main(int argc, char** argv) {
  if (argc == 3) return roost::bench::Main(argv[1], argv[2]);
  fmt::print(stderr, "usage: roost_stepper SHAPE THREADS\n");
  return 64;
}
