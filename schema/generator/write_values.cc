#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "schema/generator/writers.h"

namespace roost::generator {
namespace {

using Comment = std::vector<std::string>;

std::string CommentLines(const Comment& comment, const char* indent) {
  std::string text;
  for (const std::string& line : comment) text += fmt::format("{}//{}{}\n", indent, line.empty() ? "" : " ", line);
  return text;
}

std::string ConstantLines(const ConstantGroup& group) {
  const bool is_nested = !group.name.empty();
  std::string text = CommentLines(group.comment, "");
  if (is_nested) text += fmt::format("struct {} {{\n", group.name);
  for (const Constant& constant : group.constants) {
    text += CommentLines(constant.comment, is_nested ? "  " : "");
    text += fmt::format("{} constexpr {} {} = {};\n", is_nested ? "  static" : "inline", constant.type, constant.name,
                        constant.value);
  }
  return text + (is_nested ? "};\n\n" : "\n");
}

// The enumerators and their names for logs and metrics: "name_taken".
std::string NamesLine(const std::string& type, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", SnakeCase(name));
  return fmt::format("inline constexpr std::array<std::string_view, {}> k{}Names{{{}}};\n\n", names.size(), type, list);
}

std::string EnumLines(const Enum& enumeration) {
  if (enumeration.is_existing) return "";
  std::string text = CommentLines(enumeration.comment, "");
  text += fmt::format("enum class {} : std::uint8_t {{\n", enumeration.type);
  std::vector<std::string> names;
  for (const Enum::Entry& entry : enumeration.entries) {
    text += CommentLines(entry.comment, "  ") + fmt::format("  {},\n", entry.enumerator);
    names.push_back(entry.name);
  }
  return text + "};\n" + NamesLine(enumeration.type, names);
}

std::string SetLines(const Struct& set) {
  std::string text = CommentLines(set.comment, "") + fmt::format("enum class {} : std::uint8_t {{\n", set.type);
  std::vector<std::string> names;
  for (const Field& field : set.fields) {
    text += CommentLines(field.comment, "  ") + fmt::format("  k{},\n", field.method);
    names.push_back(field.name);
  }
  return text + "};\n" + NamesLine(set.type, names) + fmt::format("using {0}s = EnumSet<{0}>;\n\n", set.type);
}

std::string MemberLines(const Field& field) {
  const bool is_present = !field.is_optional;
  const std::string type = is_present ? ValueType(field) : fmt::format("std::optional<{}>", ValueType(field));
  const std::string initial = is_present && !field.initial.empty() ? field.initial : "{}";
  return CommentLines(field.comment, "  ") + fmt::format("  {} {} = {};\n", type, field.member, initial);
}

constexpr const char* kEquality = "\n  bool operator==(const {}&) const = default;\n}};\n\n";

std::string RowLines(const Struct& row) {
  std::string text = CommentLines(row.comment, "") + fmt::format("struct {} {{\n", row.type);
  for (const Field& field : row.fields) {
    const std::string type = ValueType(*field.type.element);
    text += fmt::format("  {} {} = {{}};\n", type, field.member);
  }
  return text + fmt::format(fmt::runtime(kEquality), row.type);
}

std::string StructLines(const Struct& structure) {
  std::string text;
  for (const Field& field : structure.fields) {
    if (!field.choice) continue;
    text += fmt::format("enum class {} : std::uint8_t {{ {}, {} }};\n\n", field.choice->type, field.choice->no,
                        field.choice->yes);
  }
  text += CommentLines(structure.comment, "") + fmt::format("struct {} {{\n", structure.type);
  if (structure.shape == Shape::kKinds) {
    std::string kinds;
    for (const Field& field : structure.fields) kinds += (kinds.empty() ? "k" : ", k") + field.method;
    text += fmt::format("  enum class Kind : std::uint8_t {{ {} }};\n  Kind kind = {{}};\n", kinds);
  }
  for (const Field& field : structure.fields) text += MemberLines(field);
  if (structure.local) {
    text += CommentLines({structure.local->comment}, "  ") +
            fmt::format("  {} {} = {{}};\n", structure.local->type, structure.local->name);
  }
  return text + fmt::format(fmt::runtime(kEquality), structure.type);
}

std::string MessageLines(const Struct& message) {
  std::string text, types;
  for (const Field* field : Alternatives(message)) {
    const std::string type = AlternativeType(*field);
    types += (types.empty() ? "" : ", ") + type;
    if (field->type.kind != Kind::kVoid) continue;
    text += CommentLines(field->comment, "") + fmt::format("struct {} {{", type);
    text += fmt::format(fmt::runtime(kEquality), type);
  }
  return text + CommentLines(message.comment, "") +
         fmt::format("using {} = std::variant<{}>;\n\n", message.type, types);
}

// The type of the set that has this feature.
const std::string& SetWith(const std::string& feature, const Model& model) {
  for (const auto& structure : model.structs) {
    if (structure->shape != Shape::kSet) continue;
    const auto has_it = [&feature](const Field& field) { return field.name == feature; };
    if (std::any_of(structure->fields.begin(), structure->fields.end(), has_it)) return structure->type;
  }
  Fail(fmt::format("$needs(\"{}\"): no set has it", feature));
}

// NeedsOf for each struct with a field that needs a feature, itself or in a struct that it holds.
std::string NeedsLines(const Model& model) {
  std::string text;
  std::map<const Struct*, std::string> sets;  // of the structs so far
  for (const auto& structure : model.structs) {
    if (structure->shape != Shape::kStruct) continue;
    std::string set, lines;
    for (const Field& field : structure->fields) {
      const auto inner = field.is_optional ? sets.end() : sets.find(field.type.structure);
      if (!field.needs.empty()) {
        set = SetWith(field.needs, model);
        lines += fmt::format("  if (value.{0} != plain.{0}) needs.insert({1}::k{2});\n", field.member, set,
                             Capitalised(field.needs));
      } else if (inner != sets.end()) {
        set = inner->second;
        lines += fmt::format("  needs.insert(NeedsOf(value.{}));\n", field.member);
      }
    }
    if (lines.empty()) continue;
    sets.emplace(structure.get(), set);
    text += fmt::format(
        "// The features that a peer must have to take it.\n[[nodiscard]] inline {0}s NeedsOf(const {1}& value) {{\n"
        "  const {1} plain;\n  {0}s needs;\n{2}  return needs;\n}}\n\n",
        set, structure->type, lines);
  }
  return text;
}

std::string ShownLines(const Struct& structure) {
  std::string lines;
  for (const Field& field : structure.fields) {
    if (!field.shown.empty())
      lines += fmt::format("  show(std::string_view(\"{}\"), value.{});\n", field.shown, field.member);
  }
  if (lines.empty()) return "";
  return fmt::format(
      "// Calls show(name, value) for each number that operators see.\ntemplate <typename Show>\n"
      "void ForEachShown(const {}& value, const Show& show) {{\n{}}}\n\n",
      structure.type, lines);
}

std::string Lines(const Struct& structure) {
  if (structure.is_message) return MessageLines(structure);
  if (structure.is_existing) return "";
  switch (structure.shape) {
    case Shape::kSet: return SetLines(structure);
    case Shape::kColumns: return RowLines(structure);
    case Shape::kOptional:
    case Shape::kVariant: return "";
    default: return StructLines(structure);
  }
}

}  // namespace

std::string WriteValues(const Model& model) {
  std::string text = Head("The messages as plain values, with the schema's comments.");
  text +=
      "#pragma once\n\n#include <array>\n#include <cstdint>\n#include <optional>\n#include <string>\n"
      "#include <string_view>\n#include <variant>\n#include <vector>\n\n";
  for (const std::string& include : model.includes) text += fmt::format("#include \"{}\"\n", include);
  text += fmt::format("\nnamespace {} {{\n\n", model.values_namespace);
  for (const ConstantGroup& group : model.constants) text += ConstantLines(group);
  for (const auto& enumeration : model.enums) text += EnumLines(*enumeration);
  for (const auto& structure : model.structs) text += Lines(*structure);
  for (const auto& structure : model.structs) text += ShownLines(*structure);
  text += NeedsLines(model);
  return text + fmt::format("}}  // namespace {}\n", model.values_namespace);
}

std::string Head(const char* what) {
  return fmt::format("// {}\n// Made from schema/roost.capnp by schema/generator: change them, not this.\n", what);
}

std::string Literal(double value, const Type& type) {
  if (type.kind == Kind::kUnsigned && type.bits == 64)
    return fmt::format("std::uint64_t{{{}}}", static_cast<std::uint64_t>(value));
  if (type.kind == Kind::kUnsigned) return fmt::format("{}U", static_cast<std::uint64_t>(value));
  std::string text = type.bits == 32 ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return type.bits == 32 ? text + "F" : text;
}

std::string AlternativeName(const Field& field) {
  std::string name = SnakeCase(field.name);
  for (char& c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

std::vector<const Field*> Alternatives(const Struct& message) {
  std::vector<const Field*> fields;
  for (const Field& field : message.fields) {
    if (field.name != "none") fields.push_back(&field);
  }
  return fields;
}

std::string AlternativeType(const Field& field) {
  return field.type.kind == Kind::kVoid ? field.method : ValueType(field);
}

std::string TargetType(const Struct& structure) {
  const Type type{.kind = Kind::kStruct, .structure = &structure};
  return ValueType(type);
}

}  // namespace roost::generator
