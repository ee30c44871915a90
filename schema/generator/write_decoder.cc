#include <fmt/core.h>

#include "schema/generator/writers.h"

namespace roost::generator {
namespace {

std::string Return(const std::string& expression) { return fmt::format("  ROOST_RETURN_IF_ERROR({});\n", expression); }

// The check of a number in `value`; empty when every number is right.
std::string NumberCheck(const Field& field, const Type& type, const std::string& value) {
  const auto literal = [&type](const std::optional<double>& bound) { return Literal(*bound, type); };
  if (field.above) {
    return Return(
        fmt::format("CheckAbove({}, {}, {}, \"{}\")", value, literal(field.above), literal(field.most), field.error));
  }
  if (field.least && field.most) {
    return Return(
        fmt::format("CheckBetween({}, {}, {}, \"{}\")", value, literal(field.least), literal(field.most), field.error));
  }
  if (field.least) return Return(fmt::format("CheckAtLeast({}, {}, \"{}\")", value, literal(field.least), field.error));
  if (field.most) return Return(fmt::format("CheckAtMost({}, {}, \"{}\")", value, literal(field.most), field.error));
  return "";
}

std::string ReadTextCall(const Field& field, const std::string& in, const std::string& out) {
  constexpr const char* kKinds[] = {"kAny", "kLine", "kLabel"};
  return fmt::format("ReadText({}, {{TextKind::{}, {}}}, \"{}\", {})", in, kKinds[static_cast<int>(field.text)],
                     static_cast<std::uint64_t>(*field.most), field.error, out);
}

// The call of Read for a struct; what is of an unknown kind runs `otherwise`.
std::string ReadCall(const Struct& structure, const std::string& in, const std::string& out, const char* otherwise) {
  switch (structure.failure) {
    case Failure::kNone: return fmt::format("  Read({}, {});\n", in, out);
    case Failure::kMalformed: return Return(fmt::format("Read({}, {})", in, out));
    case Failure::kUnknown: break;
  }
  return fmt::format(
      "  {{\n    ROOST_ASSIGN_OR_RETURN(const bool is_known, Read({}, {}));\n    if (!is_known) {};\n  }}\n", in, out,
      otherwise);
}

std::string ListLines(const Field& field, const std::string& in, const std::string& out) {
  const Type& element = *field.type.element;
  const double most = element.kind == Kind::kText ? *field.most_entries : *field.most;
  std::string text = fmt::format("  {{\n    const auto list = {};\n", in);
  text += Return(fmt::format("CheckCount(list.size(), {{{}, {}}}, \"{}\")",
                             static_cast<std::uint64_t>(field.least.value_or(0)), static_cast<std::uint64_t>(most),
                             field.error));
  if (!field.made_type.empty()) return text + fmt::format("  {}.assign(list.begin(), list.end());\n  }}\n", out);
  text += fmt::format("  {}.reserve(list.size());\n  for (const auto item : list) {{\n", out);
  const std::string added = out + ".emplace_back()";
  switch (element.kind) {
    case Kind::kText: text += Return(ReadTextCall(field, "item", added)); break;
    case Kind::kStruct: text += ReadCall(*element.structure, "item", added, (out + ".pop_back()").c_str()); break;
    default: text += fmt::format("    {}.push_back(item);\n", out); break;
  }
  return text + "  }\n  }\n";
}

std::string FieldLines(const Field& field, const std::string& in, const std::string& out);

std::string StructLines(const Field& field, const std::string& in, const std::string& out) {
  const Struct& structure = *field.type.structure;
  const std::string got = fmt::format("{}.get{}()", in, field.method);
  if (structure.shape == Shape::kOptional) {
    const Field& some = structure.fields.at(1);
    return fmt::format("  if (const auto option = {}; option.is{}()) {{\n    auto& value = {}.emplace();\n{}  }}\n",
                       got, some.method, out, FieldLines(some, "option", "value"));
  }
  if (!field.is_optional) return ReadCall(structure, got, out, "return false");
  const std::string is_there = field.present_if.empty() ? fmt::format("{}.has{}()", in, field.method)
                                                        : fmt::format("{}.get{}() != 0", got, field.present_if);
  return fmt::format("  if ({}) {{\n  {}  }}\n", is_there,
                     ReadCall(structure, got, out + ".emplace()", "return false"));
}

std::string FieldLines(const Field& field, const std::string& in, const std::string& out) {
  const std::string got = fmt::format("{}.get{}()", in, field.method);
  switch (field.type.kind) {
    case Kind::kVoid: return "";
    case Kind::kBool:
      if (!field.choice) return fmt::format("  {} = {};\n", out, got);
      return fmt::format("  {0} = {1} ? {2}::{3} : {2}::{4};\n", out, got, field.choice->type, field.choice->yes,
                         field.choice->no);
    case Kind::kUnsigned:
    case Kind::kReal: {
      const std::string made = field.made_type.empty() ? got : fmt::format("{}({})", field.made_type, got);
      const Type type{.kind = field.type.kind, .bits = field.type.bits < 32 ? 32 : field.type.bits};
      return fmt::format("  {} = {};\n{}", out, made, NumberCheck(field, type, out));
    }
    case Kind::kEnum: return fmt::format("  {} = Read({});\n", out, got);
    case Kind::kText: return Return(ReadTextCall(field, got, out));
    case Kind::kData:
      return Return(
          fmt::format("ReadData({}, {}, \"{}\", {})", got, static_cast<std::uint64_t>(*field.most), field.error, out));
    case Kind::kList: return ListLines(field, got, out);
    case Kind::kStruct: return StructLines(field, in, out);
  }
  return "";
}

std::string SuccessOf(Failure failure) {
  switch (failure) {
    case Failure::kNone: return "";
    case Failure::kMalformed: return "  return {};\n";
    case Failure::kUnknown: break;
  }
  return "  return true;\n";
}

std::string ColumnLines(const Struct& structure) {
  std::string text, count;
  for (const Field& field : structure.fields) {
    text += fmt::format("  const auto {}s = in.get{}();\n", field.member, field.method);
    if (count.empty()) {
      count = field.member + "s.size()";
      text += Return(fmt::format("CheckCount({}, {{0, {}}}, \"{}\")", count, static_cast<std::uint64_t>(*field.most),
                                 field.error));
    } else {
      text +=
          fmt::format("  if ({0}s.size() != {1}) return DataLoss(\"{2}\", \"{{}} for {{}} {3}\", {0}s.size(), {1});\n",
                      field.member, count, field.error, structure.fields[0].name);
    }
  }
  text += fmt::format("  out.resize({0});\n  for (unsigned i = 0; i < {0}; ++i) {{\n", count);
  for (const Field& field : structure.fields) {
    text += fmt::format("  out[i].{0} = {0}s[i];\n", field.member);
    const bool is_first = &field == structure.fields.data();
    if (!is_first) text += NumberCheck(field, *field.type.element, "out[i]." + field.member);
  }
  return text + "  }\n";
}

std::string AlternativeLines(const Struct& structure) {
  std::string text = "  switch (in.which()) {\n";
  for (const Field& field : structure.fields) {
    text += fmt::format("    case {}::{}: {{\n", structure.schema_type, AlternativeName(field));
    if (structure.shape == Shape::kKinds) {
      text += fmt::format("    out.kind = {}::Kind::k{};\n{}", structure.type, field.method,
                          FieldLines(field, "in", "out." + field.member));
    } else {
      text += ReadCall(*field.type.structure, fmt::format("in.get{}()", field.method),
                       fmt::format("out.emplace<{}>()", AlternativeType(field)), "return false");
    }
    text += "    return true;\n    }\n";
  }
  return text + "  }\n  return false;\n";
}

std::string Body(const Struct& structure) {
  if (structure.shape == Shape::kKinds || structure.shape == Shape::kVariant) return AlternativeLines(structure);
  std::string text;
  if (structure.shape == Shape::kColumns) {
    text = ColumnLines(structure);
  } else if (structure.shape == Shape::kSet) {
    for (const Field& field : structure.fields) {
      text += fmt::format("  if (in.get{0}()) out.insert({1}::k{0});\n", field.method, structure.type);
    }
  } else {
    for (const Field& field : structure.fields) {
      text += FieldLines(field, "in", "out." + field.member);
      if (!field.enough_if.empty()) text += fmt::format("  if ({}(out)) return {{}};\n", field.enough_if);
    }
  }
  if (structure.has_check) text += Return("Check(in, out)");
  return text + SuccessOf(structure.failure);
}

std::string Signature(const Struct& structure) {
  const char* const result = structure.failure == Failure::kNone        ? "void"
                             : structure.failure == Failure::kMalformed ? "Result<void>"
                                                                        : "Result<bool>";
  return fmt::format("{} Read({}::Reader in, {}& out)", result, structure.schema_type, TargetType(structure));
}

// The lines that read one kind of message.
std::string MessageLines(const Struct& message, const Field& field) {
  const std::string type = AlternativeType(field);
  std::string text =
      fmt::format("{{\n    std::optional<{0}> out(std::in_place, std::in_place_type<{1}>);\n", message.type, type);
  if (field.type.kind != Kind::kVoid) {
    text += ReadCall(*field.type.structure, fmt::format("in.get{}()", field.method),
                     fmt::format("std::get<{}>(*out)", type),
                     fmt::format("return std::optional<{}>()", message.type).c_str());
  }
  return text + "    return Known(std::move(out));\n    }\n";
}

std::string MessageFunction(const Struct& message) {
  std::string text = fmt::format("{0} ReadMessage({1}::Reader in) {{\n  using Known = {0};\n  switch (in.which()) {{\n",
                                 fmt::format("Result<std::optional<{}>>", message.type), message.schema_type);
  for (const Field& field : message.fields) {
    text += fmt::format("    case {}::{}: ", message.schema_type, AlternativeName(field));
    text += field.name == "none" ? "return DataLoss(\"message\", \"empty\");\n" : MessageLines(message, field);
  }
  return text + fmt::format("  }}\n  return std::optional<{}>();\n}}\n\n", message.type);
}

std::string EnumFunction(const Enum& enumeration) {
  return fmt::format(
      "{0} Read({1} in) {{\n  return static_cast<unsigned>(in) < {2} ? static_cast<{0}>(in) : {0}::{3};\n}}\n\n",
      enumeration.type, enumeration.schema_type, enumeration.entries.size(),
      enumeration.entries[enumeration.unknown].enumerator);
}

}  // namespace

std::string WriteDecoder(const Model& model) {
  std::string inner, outer;
  for (const auto& enumeration : model.enums) inner += EnumFunction(*enumeration);
  for (const auto& structure : model.structs) {
    if (structure->shape == Shape::kOptional) continue;
    if (structure->is_message) {
      outer += MessageFunction(*structure);
    } else {
      inner += fmt::format("{} {{\n{}}}\n\n", Signature(*structure), Body(*structure));
    }
  }
  return Head("Reads and checks messages out of Cap'n Proto's readers. Errors name the field.") +
         "#include <optional>\n#include <utility>\n#include <variant>\n\n#include \"common/wire/made_codec.h\"\n\n" +
         fmt::format("namespace {0} {{\nnamespace {{\n\n{1}}}  // namespace\n\n{2}}}  // namespace {0}\n",
                     model.values_namespace, inner, outer);
}

}  // namespace roost::generator
