#include <fmt/core.h>

#include "schema/generator/writers.h"

namespace roost::generator {
namespace {

std::string TextArgument(const Field& field, const std::string& value) {
  const std::string text = field.is_cut ? fmt::format("BoundedText({})", value) : value;
  return fmt::format("Text({}, {}, \"{}\")", text, static_cast<std::uint64_t>(*field.most), field.error);
}

std::string NumberLine(const Field& field, const std::string& value, const std::string& out) {
  const bool is_narrow = field.type.kind == Kind::kUnsigned && field.type.bits < 32;
  if (!is_narrow) {
    const char* const number = field.made_type.empty() ? "" : ".value()";
    return fmt::format("  {}.set{}({}{});\n", out, field.method, value, number);
  }
  const unsigned largest = (1U << field.type.bits) - 1;
  const auto most = static_cast<unsigned>(field.most.value_or(largest));
  return fmt::format("  ROOST_CHECK({} <= {}U, \"{}: {{}}\", {});\n  {}.set{}(static_cast<std::uint{}_t>({}));\n",
                     value, most, field.error, value, out, field.method, field.type.bits, value);
}

std::string ListLines(const Field& field, const std::string& value, const std::string& out) {
  const Type& element = *field.type.element;
  const double most = element.kind == Kind::kText ? *field.most_entries : *field.most;
  std::string text = field.omits_empty ? fmt::format("  if (!{}.empty()) {{\n", value) : "  {\n";
  text += fmt::format("    auto list = {}.init{}(Count({}.size(), {}, \"{}\"));\n", out, field.method, value,
                      static_cast<std::uint64_t>(most), field.error);
  const std::string item = fmt::format("{}.data()[i]", value);
  text += "    for (unsigned i = 0; i < list.size(); ++i) ";
  switch (element.kind) {
    case Kind::kStruct: text += fmt::format("Write({}, list[i]);\n", item); break;
    case Kind::kText: text += fmt::format("list.set(i, {});\n", TextArgument(field, item)); break;
    default: text += fmt::format("list.set(i, {});\n", item); break;
  }
  return text + "  }\n";
}

std::string StructLine(const Field& field, const std::string& value, const std::string& out);

std::string FieldLines(const Field& field, const std::string& value, const std::string& out) {
  switch (field.type.kind) {
    case Kind::kVoid: return fmt::format("  {}.set{}();\n", out, field.method);
    case Kind::kBool: {
      const std::string flag =
          field.choice ? fmt::format("{} == {}::{}", value, field.choice->type, field.choice->yes) : value;
      return fmt::format("  {}.set{}({});\n", out, field.method, flag);
    }
    case Kind::kUnsigned:
    case Kind::kReal: return NumberLine(field, value, out);
    case Kind::kEnum:
      return fmt::format("  {}.set{}(static_cast<{}>({}));\n", out, field.method, field.type.enumeration->schema_type,
                         value);
    case Kind::kText: {
      const std::string condition = field.omits_empty ? fmt::format("if (!{}.empty()) ", value) : "";
      return fmt::format("  {}{}.set{}({});\n", condition, out, field.method, TextArgument(field, value));
    }
    case Kind::kData:
      return fmt::format("  {}.set{}(Data({}, {}, \"{}\"));\n", out, field.method, value,
                         static_cast<std::uint64_t>(*field.most), field.error);
    case Kind::kList: return ListLines(field, value, out);
    case Kind::kStruct: return StructLine(field, value, out);
  }
  return "";
}

std::string StructLine(const Field& field, const std::string& value, const std::string& out) {
  if (field.type.structure->shape == Shape::kOptional) {
    const Field& some = field.type.structure->fields.at(1);
    const std::string inner =
        FieldLines(some, fmt::format("(*{})", value), fmt::format("{}.get{}()", out, field.method));
    return fmt::format("  if ({}) {{\n{}  }}\n", value, inner);
  }
  const char* const how = field.is_group ? "get" : "init";
  if (!field.is_optional) return fmt::format("  Write({}, {}.{}{}());\n", value, out, how, field.method);
  std::string check;
  if (!field.present_if.empty()) {
    for (const Field& each : field.type.structure->fields) {
      if (each.method != field.present_if) continue;
      check = fmt::format("    ROOST_CHECK({}->{} != 0, \"{}\");\n", value, each.member, each.error);
    }
  }
  return fmt::format("  if ({0}) {{\n{1}    Write(*{0}, {2}.{3}{4}());\n  }}\n", value, check, out, how, field.method);
}

std::string AlternativeLine(const Field& field, std::size_t index) {
  if (field.type.kind == Kind::kVoid) return fmt::format("    case {}: return out.set{}();\n", index, field.method);
  return fmt::format("    case {0}: return Write(std::get<{0}>(in), out.init{1}());\n", index, field.method);
}

std::string Body(const Struct& structure) {
  std::string text;
  switch (structure.shape) {
    case Shape::kVariant: {
      std::size_t index = 0;
      for (const Field* field : Alternatives(structure)) text += AlternativeLine(*field, index++);
      return "  switch (in.index()) {\n" + text + "  }\n";
    }
    case Shape::kKinds:
      for (const Field& field : structure.fields) {
        text += fmt::format("  if (in.kind == {}::Kind::k{}) {{\n{}  }}\n", structure.type, field.method,
                            FieldLines(field, "in." + field.member, "out"));
      }
      return text;
    case Shape::kSet:
      for (const Field& field : structure.fields) {
        text += fmt::format("  out.set{0}(in.contains({1}::k{0}));\n", field.method, structure.type);
      }
      return text;
    case Shape::kColumns:
      text = "  if (in.empty()) return;\n";
      for (const Field& field : structure.fields) {
        text += fmt::format("  auto {} = out.init{}(Count(in.size(), {}, \"{}\"));\n", field.member, field.method,
                            static_cast<std::uint64_t>(*structure.fields[0].most), structure.fields[0].error);
      }
      text += "  for (unsigned i = 0; i < in.size(); ++i) {\n";
      for (const Field& field : structure.fields) text += fmt::format("    {0}.set(i, in[i].{0});\n", field.member);
      return text + "  }\n";
    default: break;
  }
  for (const Field& field : structure.fields) text += FieldLines(field, "in." + field.member, "out");
  return text;
}

std::string Signature(const Struct& structure) {
  return fmt::format("void {}(const {}& in, {}::Builder out)", structure.is_message ? "WriteMessage" : "Write",
                     TargetType(structure), structure.schema_type);
}

}  // namespace

std::string WriteEncoder(const Model& model) {
  std::string inner, outer;
  for (const auto& structure : model.structs) {
    if (structure->shape == Shape::kOptional) continue;
    (structure->is_message ? outer : inner) += fmt::format("{} {{\n{}}}\n\n", Signature(*structure), Body(*structure));
  }
  for (const auto& enumeration : model.enums) {
    for (const Enum::Entry& entry : enumeration->entries) {
      if (!enumeration->is_existing) continue;
      const std::size_t index = static_cast<std::size_t>(&entry - enumeration->entries.data());
      inner +=
          fmt::format("static_assert(static_cast<int>({}::{}) == {});\n", enumeration->type, entry.enumerator, index);
    }
  }
  return Head("Writes messages into Cap'n Proto's builders.") +
         "#include <utility>\n#include <variant>\n\n#include \"common/wire/made_codec.h\"\n\n" +
         fmt::format("namespace {0} {{\nnamespace {{\n\n{1}\n}}  // namespace\n\n{2}}}  // namespace {0}\n",
                     model.values_namespace, inner, outer);
}

}  // namespace roost::generator
