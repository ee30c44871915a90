#include <fmt/core.h>

#include <algorithm>

#include "schema/generator/writers.h"

namespace roost::generator {
namespace {

std::string Whole(double value) { return fmt::format("{}", static_cast<std::uint64_t>(value)); }

// A random number of the field's type, within its bounds.
std::string Number(const Field& field, const Type& type) {
  if (type.kind == Kind::kReal) {
    const double least = field.above ? (*field.above + *field.most) / 2 : field.least.value_or(0);
    return fmt::format("Real<{}>({}, {})", ValueType(type), Literal(least, type),
                       Literal(field.most.value_or(least + 10), type));
  }
  if (!field.least && !field.most && type.bits >= 32) return fmt::format("Number<{}>()", ValueType(type));
  const std::string most = field.most       ? Whole(*field.most)
                           : type.bits < 32 ? Whole((1U << type.bits) - 1)
                                            : fmt::format("std::numeric_limits<{}>::max()", ValueType(type));
  return fmt::format("Number<{}>({}, {})", ValueType(type), Whole(field.least.value_or(0)), most);
}

std::string TextCall(const Field& field) {
  constexpr const char* kKinds[] = {"kAny", "kLine", "kLabel"};
  return fmt::format("Text(TextKind::{}, {})", kKinds[static_cast<int>(field.text)], Whole(*field.most));
}

std::string Element(const Field& field, const Type& type) {
  switch (type.kind) {
    case Kind::kText: return TextCall(field);
    case Kind::kStruct: return fmt::format("Make{}()", type.structure->path);
    default: return fmt::format("Number<{}>()", ValueType(type));
  }
}

std::string FieldLines(const Field& field, const std::string& out) {
  switch (field.type.kind) {
    case Kind::kVoid: return "";
    case Kind::kBool:
      if (!field.choice) return fmt::format("    {} = Coin();\n", out);
      return fmt::format("    {0} = Coin() ? {1}::{2} : {1}::{3};\n", out, field.choice->type, field.choice->yes,
                         field.choice->no);
    case Kind::kUnsigned:
    case Kind::kReal: {
      const std::string number = Number(field, field.type);
      return fmt::format("    {} = {};\n", out,
                         field.made_type.empty() ? number : fmt::format("{}({})", field.made_type, number));
    }
    case Kind::kEnum:
      return fmt::format("    {} = static_cast<{}>(Below({}));\n", out, field.type.enumeration->type,
                         field.type.enumeration->entries.size());
    case Kind::kText: return fmt::format("    {} = {};\n", out, TextCall(field));
    case Kind::kData: return fmt::format("    {} = Bytes();\n", out);
    case Kind::kList: {
      const Type& element = *field.type.element;
      const double most = element.kind == Kind::kText ? *field.most_entries : *field.most;
      return fmt::format("    for (std::uint64_t n = Length({}, {}); n > 0; --n) {}.push_back({});\n",
                         Whole(field.least.value_or(0)), Whole(most), out, Element(field, element));
    }
    case Kind::kStruct: break;
  }
  const Struct& structure = *field.type.structure;
  if (structure.shape == Shape::kOptional) {
    return fmt::format("    if (Coin()) {{\n      auto& value = {}.emplace();\n  {}    }}\n", out,
                       FieldLines(structure.fields.at(1), "value"));
  }
  const std::string made =
      fmt::format("    {}{} = Make{}();\n", field.is_optional ? "if (Coin()) " : "", out, structure.path);
  return made;
}

std::string Body(const Struct& structure) {
  std::string text;
  switch (structure.shape) {
    case Shape::kSet:
      for (const Field& field : structure.fields) {
        text += fmt::format("    if (Coin()) out.insert({}::k{});\n", structure.type, field.method);
      }
      return text;
    case Shape::kVariant: {
      const std::vector<const Field*> alternatives = Alternatives(structure);
      text = fmt::format("    switch (Below({})) {{\n", alternatives.size());
      for (std::size_t i = 0; i < alternatives.size(); ++i) {
        const Field& field = *alternatives[i];
        const std::string made = field.type.kind == Kind::kVoid ? AlternativeType(field) + "{}"
                                                                : fmt::format("Make{}()", field.type.structure->path);
        text += fmt::format("      case {}: out = {}; break;\n", i, made);
      }
      return text + "      default: break;\n    }\n";
    }
    case Shape::kKinds:
      text = fmt::format("    switch (Below({})) {{\n", structure.fields.size());
      for (std::size_t i = 0; i < structure.fields.size(); ++i) {
        const Field& field = structure.fields[i];
        text += fmt::format("      case {}:\n      out.kind = {}::Kind::k{};\n{}      break;\n", i, structure.type,
                            field.method, FieldLines(field, "out." + field.member));
      }
      return text + "      default: break;\n    }\n";
    case Shape::kColumns:
      text = fmt::format("    out.resize(Length(0, {}));\n    for (auto& row : out) {{\n",
                         Whole(*structure.fields[0].most));
      for (const Field& field : structure.fields) {
        const Type& type = *field.type.element;
        const bool is_first = &field == structure.fields.data();
        text +=
            fmt::format("      row.{} = {};\n", field.member, is_first ? Element(field, type) : Number(field, type));
      }
      return text + "    }\n";
    default: break;
  }
  for (const Field& field : structure.fields) text += FieldLines(field, "out." + field.member);
  return text;
}

}  // namespace

std::string WriteRandom(const Model& model) {
  std::string text;
  for (const auto& structure : model.structs) {
    if (structure->shape == Shape::kOptional) continue;
    const std::string type = TargetType(*structure);
    text +=
        fmt::format("  [[nodiscard]] {} Make{}() {{\n    {} out;\n{}", type, structure->path, type, Body(*structure));
    text += fmt::format("{}    return out;\n  }}\n\n", structure->has_check ? "    Fit(out);\n" : "");
  }
  return Head("Random messages: every field is drawn at random, within its bounds. For tests.") +
         "#pragma once\n\n#include <cstdint>\n#include <limits>\n\n#include \"schema/messages.h\"\n"
         "#include \"tests/common/wire/random_values.h\"\n\n" +
         fmt::format(
             "namespace {0}::testing {{\n\n// RandomValues draws single values, and its Fit makes fields of one "
             "message fit each other.\nclass MessageMaker : public RandomValues {{\n public:\n  using "
             "RandomValues::RandomValues;\n\n{1}}};\n\n}}  // namespace {0}::testing\n",
             model.values_namespace, text);
}

}  // namespace roost::generator
