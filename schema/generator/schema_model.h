// The schema as the writers need it: each struct, union and group with its fields in the order of declaration, the
// words of annotations.capnp read, and the names that they have in C++.
//
//   CodeGeneratorRequest ─► ReadModel ─► Model ─► writers.h: the text of each generated file
#pragma once

#include <capnp/schema.capnp.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace roost::generator {

enum class Kind { kVoid, kBool, kUnsigned, kReal, kText, kData, kEnum, kStruct, kList };
enum class TextKind { kAny, kLine, kLabel };

// The shape that a struct, group or union has in C++.
enum class Shape {
  kStruct,
  kKinds,     // a struct with a member `kind` and a member for each alternative
  kOptional,  // a union of nothing and one value
  kVariant,   // any other union
  kSet,
  kColumns,
};

struct Struct;
struct Enum;

struct Type {
  Kind kind = Kind::kVoid;
  unsigned bits = 0;                   // kUnsigned and kReal
  const Struct* structure = nullptr;   // kStruct
  const Enum* enumeration = nullptr;   // kEnum
  std::shared_ptr<Type> element = {};  // kList
};

// The ways in which a decoder may fail.
enum class Failure {
  kNone,
  kMalformed,
  kUnknown,  // malformed, or of a kind that this version does not know
};

struct Choice {
  std::string type, no, yes;
};

struct Field {
  std::string name;    // in the schema: "topP"
  std::string method;  // behind get and set: "TopP"
  std::string member;  // "top_p"
  std::string error;   // its name in errors
  std::vector<std::string> comment;
  Type type;
  bool is_group = false;
  std::optional<double> least, most, most_entries, above;
  TextKind text = TextKind::kAny;
  bool is_optional = false;  // a std::optional, absent as a null pointer or by presentIf
  bool omits_empty = false;
  bool is_cut = false;
  std::string present_if;  // method of the field that is not 0 then
  std::string enough_if;
  std::string made_type;  // a type made of numbers: "RequestId"
  std::string initial;    // C++; empty: {}
  std::optional<Choice> choice;
  std::string needs;  // the feature: "fullSampling"
  std::string shown;  // the name for operators
};

struct Enum {
  std::string type, schema_type;  // "FinishReason", "schema::FinishReason"
  bool is_existing = false;
  std::vector<std::string> comment;
  struct Entry {
    std::string name, enumerator;  // "jsonSchema", "kJsonSchema"
    std::vector<std::string> comment;
  };
  std::vector<Entry> entries;
  std::size_t unknown = 0;  // the entry that stands for those of newer peers
};

struct Local {
  std::string type, name, comment;
};

struct Struct {
  std::uint64_t id = 0;
  std::string type, schema_type;  // "PromptToEvict", "schema::Evict::What::Prompt"
  std::string path;               // "EvictWhatPrompt": unique among all
  Shape shape = Shape::kStruct;
  bool is_existing = false;
  bool is_message = false;  // a union of whole messages: the root of a frame
  bool has_check = false;
  std::vector<std::string> comment;
  std::vector<Field> fields;  // in the order of declaration; of a union: its alternatives
  std::optional<Local> local;
  Failure failure = Failure::kNone;
};

struct Constant {
  std::string type, name, value;
  std::vector<std::string> comment;
};
struct ConstantGroup {
  std::string name;  // empty: of the namespace
  std::vector<std::string> comment;
  std::vector<Constant> constants;
};

struct Model {
  std::string values_namespace;
  std::vector<std::string> includes;
  std::vector<ConstantGroup> constants;
  std::vector<std::unique_ptr<Enum>> enums;      // in the order of declaration
  std::vector<std::unique_ptr<Struct>> structs;  // each behind those that it holds
};

// Ends the program at what the writers could not write, such as a list without a bound.
Model ReadModel(capnp::schema::CodeGeneratorRequest::Reader request);

// Ends the program with a message.
[[noreturn]] void Fail(const std::string& message);

// "top_p" for "topP", "TopP" with Capitalised, "k" + that for constants.
std::string SnakeCase(const std::string& name);
std::string Capitalised(const std::string& name);

// The type of a field in C++, without std::optional: "std::vector<BlockHash>".
std::string ValueType(const Field& field);
std::string ValueType(const Type& type);

}  // namespace roost::generator
