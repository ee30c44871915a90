// A plugin of Cap'n Proto's compiler: `capnp compile -o<this program>:FOLDER roost.capnp`. Reads the compiled schema
// from standard input, and writes the plain values of its messages, their codec and their random generator to the
// working directory.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "schema/generator/schema_model.h"
#include "schema/generator/writers.h"

namespace roost::generator {
namespace {

// Leaves a file as it is that has this text already: what includes it need not be compiled again.
void WriteFile(const char* name, const std::string& text) {
  {
    std::ifstream file(name, std::ios::binary);
    if (file && std::string(std::istreambuf_iterator<char>(file), {}) == text) return;
  }
  std::ofstream file(name, std::ios::binary);
  file << text;
  if (!file.flush()) Fail(std::string(name) + " can not be written");
}

void Run() {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = std::numeric_limits<std::uint64_t>::max();
  capnp::StreamFdMessageReader reader(STDIN_FILENO, options);
  const Model model = ReadModel(reader.getRoot<capnp::schema::CodeGeneratorRequest>());
  WriteFile("messages.h", WriteValues(model));
  WriteFile("encode.cc", WriteEncoder(model));
  WriteFile("decode.cc", WriteDecoder(model));
  WriteFile("random_messages.h", WriteRandom(model));
}

}  // namespace
}  // namespace roost::generator

int main() {
  try {
    roost::generator::Run();
    return 0;
  } catch (const kj::Exception& exception) {
    roost::generator::Fail(exception.getDescription().cStr());
  }
}
