// Races on shared memory, kernel by kernel: behind the SIMT shim each barrier of a kernel is removed in turn, and the
// shim must find the race that the barrier prevents. With all barriers there is none: then these runs would end too.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tests/kernels/attention_batch.h"
#include "tests/kernels/logprobs_cases.h"
#include "tests/support/simt/simt_device.h"
#include "tests/support/simt/simt_ops.h"

namespace roost::kernels {
namespace {

#ifdef ROOST_SIMT_SEES_PLAIN_ACCESSES

using Run = std::function<void(const Backend&)>;

simt::Device& ShimOf(const Backend& backend) { return simt::Device::Of(backend.device()); }

Backend Open() { return Backend::Open(simt::SimtOps(), {}).value(); }

// The end of a run without one of its barriers. A thread that runs ahead may use a value that is not there yet as an
// index, before the other access makes a race of it: then an invalid address ends the process.
enum class End : std::uint8_t { kNothing, kRace, kInvalidAddress, kOther };

[[noreturn]] void RunWithout(const simt::Place& barrier, const Run& run, int errors) {
  ::dup2(errors, STDERR_FILENO);
  const Backend backend = Open();
  ShimOf(backend).RemoveBarrier(barrier);
  run(backend);
  ::_exit(0);
}

std::string ReadAll(std::FILE* file) {
  std::string text(4096, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

End EndWithout(const simt::Place& barrier, const Run& run) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> errors(std::tmpfile(), std::fclose);
  const pid_t child = ::fork();
  if (child == 0) RunWithout(barrier, run, ::fileno(errors.get()));
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? End::kNothing : End::kOther;
  if (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS) return End::kInvalidAddress;
  return ReadAll(errors.get()).find("race in block") != std::string::npos ? End::kRace : End::kOther;
}

// The number of barriers of a run's kernels that have each end.
struct Ends {
  std::size_t races = 0;
  std::size_t invalid_addresses = 0;
  std::size_t nothing = 0;
};

void ExpectEnds(const Ends& wanted, const Run& run) {
  const Backend whole = Open();
  run(whole);
  std::map<End, std::string> barriers_of;
  std::map<End, std::size_t> counts;
  for (const simt::Place& barrier : ShimOf(whole).barriers()) {
    const End end = EndWithout(barrier, run);
    ++counts[end];
    barriers_of[end] += fmt::format(" {}:{}", barrier.file, barrier.line);
  }
  EXPECT_EQ(counts[End::kRace], wanted.races) << barriers_of[End::kRace];
  EXPECT_EQ(counts[End::kInvalidAddress], wanted.invalid_addresses) << barriers_of[End::kInvalidAddress];
  EXPECT_EQ(counts[End::kNothing], wanted.nothing) << barriers_of[End::kNothing];
  EXPECT_EQ(counts[End::kOther], 0U) << barriers_of[End::kOther];
}

TEST(RacesSimtTest, RmsNorm) {
  ExpectEnds({.races = 1}, [](const Backend& backend) {
    for (const std::uint32_t width : {1000U, 999U}) {
      std::vector<float> hidden(width, 1);
      const std::vector<float> weight(width, 1);
      std::vector<std::uint16_t> out(width);
      backend.ops().rms_norm(backend.device(), {.hidden = hidden.data(),
                                                .delta = nullptr,
                                                .weight = weight.data(),
                                                .row_indices = nullptr,
                                                .epsilon = 1e-6F,
                                                .rows = 1,
                                                .width = width,
                                                .out = out.data(),
                                                .out_dtype = DType::kBF16});
    }
  });
}

TEST(RacesSimtTest, Logprobs) {
  Rng rng(1);
  LogprobsCase wanted = RandomLogprobs({.vocab_size = 2500, .rows = 1, .scored = 1, .scale = 3}, rng);
  wanted.rows.front().top_count = 3;
  ExpectEnds({.races = 5}, [&](const Backend& backend) { (void)Logprobs(backend, wanted); });
}

// Decodes, whose warps exchange their results; items with up to 64 and up to 128 lanes.
TEST(RacesSimtTest, Attention) {
  AttentionBatch batch({.group = 4, .head_dim = 64}, 1);
  batch.Add(200, 1);
  batch.Add(100, 16);
  batch.Add(100, 32);
  batch.Fill();
  AttentionProfile profile = simt::SimtOps().attention_profile(Open().device(), 64);
  profile.concurrent_items = 1;
  ExpectEnds({.races = 7}, [&](const Backend& backend) { (void)batch.Run(backend, profile); });
}

// Watches the draws' counts and adjusted logits too, through which threads of a block exchange values.
void Sample(const Backend& backend, const std::vector<float>& logits, const std::vector<SampleRow>& draws) {
  std::vector<SampledToken> out(draws.size());
  std::vector<float> adjusted(logits.size());
  std::vector<TokenCount> counts(logits.size());
  const std::vector<CountedToken> counted{{.token = 3, .count = 2}, {.token = 1, .count = 1}};
  const std::vector<LogitBias> biases{{.token = 1, .bias = 2}, {.token = 3, .bias = -1}};
  const std::vector<TokenId> tokens{1};
  const std::vector<std::uint32_t> masks(MaskWords(static_cast<std::uint32_t>(logits.size())), 0xFFFFFFFE);
  ShimOf(backend).WatchGlobal({std::as_bytes(std::span(adjusted)), std::as_bytes(std::span(counts))});
  backend.ops().sample(backend.device(), {.logits = logits.data(),
                                          .vocab_size = static_cast<std::uint32_t>(logits.size()),
                                          .rows = draws.data(),
                                          .row_count = static_cast<std::uint32_t>(draws.size()),
                                          .biases = biases.data(),
                                          .counted = counted.data(),
                                          .counts = counts.data(),
                                          .tokens = tokens.data(),
                                          .masks = masks.data(),
                                          .adjusted = adjusted.data(),
                                          .out = out.data()});
}

// Seven barriers order nothing that another barrier does not order too.
TEST(RacesSimtTest, Sampling) {
  Rng rng(1);
  const std::vector<float> peaked = RandomFloats(rng, 2500, 8);
  std::vector<float> broken = peaked;
  broken[1] = broken[2] = std::nanf("");
  const std::vector<float> flat = RandomFloats(rng, 9000, 0.5F);  // more than the list in shared memory holds
  ExpectEnds({.races = 17, .invalid_addresses = 2, .nothing = 7}, [&](const Backend& backend) {
    Sample(backend, peaked,
           {{.seed = 1, .temperature = 1},
            {.seed = 2, .temperature = 1, .top_k = 40, .top_p = 0.9F},
            {.seed = 3, .temperature = 1, .top_p = 0.5F}});
    Sample(backend, flat, {{.seed = 4, .temperature = 1, .top_k = 5000, .top_p = 0.9F}});
    Sample(backend, broken, {{.temperature = 0}});
    SampleRow adjusted{.seed = 5, .temperature = 1, .bias_count = 2, .counted_count = 2};
    adjusted.has_counts = adjusted.resets_counts = adjusted.has_newest = adjusted.has_mask = true;
    Sample(backend, peaked, {adjusted});
  });
}

#endif

}  // namespace
}  // namespace roost::kernels
