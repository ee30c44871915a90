// A plugin of Cap'n Proto's compiler: `capnp compile -o<this program>:FOLDER roost.capnp`. Reads the compiled schema
// from standard input, and writes the plain values of its messages, their codec and their random generator to the
// working directory.
#include <capnp/message.h>
#include <capnp/serialize.h>

#include <unistd.h>
#include <cstdio>

#include <exception>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>

#include "schema/generator/model.h"
#include "schema/generator/writers.h"

namespace roost::generator {
namespace {

void WriteFile(const char* name, const std::string& text) {
  std::ofstream file(name, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error(std::string(name) + " can not be written");
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
    std::fprintf(stderr, "roost_schema_generator: %s\n", exception.getDescription().cStr());
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "roost_schema_generator: %s\n", exception.what());
  }
  return 1;
}
