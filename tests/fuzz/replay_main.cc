// Runs a fuzz target without libFuzzer on every file of the given folders, and on damaged copies of them made from a
// fixed seed. So every compiler and sanitizer tests the targets and their corpora.
//
//   some_fuzz_replay CORPUS_FOLDER…

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/base/rng.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kDamagedCopies = 40;

void RunOne(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

// Cuts, doubles, or overwrites a part, as happens to files and messages.
std::string Damage(std::string input, roost::Rng& rng) {
  if (input.empty()) return std::string(1, static_cast<char>(rng.Below(256)));
  const std::size_t begin = rng.Below(input.size());
  const std::size_t length = 1 + rng.Below(8);
  switch (rng.Below(4)) {
    case 0: return input.substr(0, begin);
    case 1: return input.insert(begin, input.substr(begin, length));
    case 2: return input.erase(begin, length);
    default: input[begin] = static_cast<char>(rng.Below(256)); return input;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t seeds = 0;
  roost::Rng rng(1);
  RunOne("");
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string input(std::istreambuf_iterator<char>(in), {});
      ++seeds;
      RunOne(input);
      std::string damaged = input;
      for (int copy = 0; copy < kDamagedCopies; ++copy) {
        // Damage accumulates for a while, then starts again from the input.
        damaged = Damage(copy % 8 == 0 ? input : damaged, rng);
        RunOne(damaged);
      }
    }
  }
  std::printf("%zu seeds, %d damaged copies of each\n", seeds, kDamagedCopies);
  return seeds > 0 ? 0 : 1;
}
