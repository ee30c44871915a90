#include "schema/generator/schema_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "schema/annotations.capnp.h"

namespace roost::generator {
namespace {

namespace schema = capnp::schema;
namespace forms = roost::schema;  // annotations.capnp

// The ids of annotations.capnp.
constexpr std::uint64_t kFirstAnnotation = 0xe15a0e5bd0a1c000;
enum Word : std::uint64_t {
  kLeast = kFirstAnnotation + 0x01,
  kMost,
  kMaxEntries,
  kAbove,
  kText,
  kNamed,
  kCheck,
  kEnoughIf,
  kUnknown,
  kOmitEmpty,
  kCut = kFirstAnnotation + 0x0c,
  kOptional,
  kPresentIf,
  kForm,
  kCxx,
  kChoice,
  kLocal,
  kValuesIn,
  kValuesInclude,
  kNeeds,
  kShown,
};

using Annotations = capnp::List<schema::Annotation>::Reader;

std::optional<schema::Value::Reader> Find(Annotations annotations, Word word) {
  for (const auto annotation : annotations) {
    if (annotation.getId() == word) return annotation.getValue();
  }
  return std::nullopt;
}
bool Has(Annotations annotations, Word word) { return Find(annotations, word).has_value(); }
std::string TextOf(Annotations annotations, Word word) {
  const auto value = Find(annotations, word);
  return value ? value->getText().cStr() : std::string();
}
std::optional<double> NumberOf(Annotations annotations, Word word) {
  const auto value = Find(annotations, word);
  return value ? std::optional(value->getFloat64()) : std::nullopt;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string Real(double value, unsigned bits) {
  std::string text = bits == 32 ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return bits == 32 ? text + "F" : text;
}

class Reader {
 public:
  explicit Reader(schema::CodeGeneratorRequest::Reader request) : request_(request) {
    for (const auto node : request.getNodes()) nodes_.emplace(node.getId(), node);
    for (const auto info : request.getSourceInfo()) infos_.emplace(info.getId(), info);
  }

  Model Read() {
    const auto file = nodes_.at(request_.getRequestedFiles()[0].getId());
    model_.values_namespace = TextOf(file.getAnnotations(), kValuesIn);
    if (const auto list = Find(file.getAnnotations(), kValuesInclude)) {
      for (const auto include : list->getList().getAs<capnp::List<capnp::Text>>())
        model_.includes.emplace_back(include);
    }
    model_.constants.emplace_back();
    for (const auto nested : file.getNestedNodes()) ReadNested(nested.getId(), nested.getName().cStr());
    return std::move(model_);
  }

 private:
  void ReadNested(std::uint64_t id, const std::string& name) {
    const auto node = nodes_.at(id);
    if (node.isConst()) {
      model_.constants.front().constants.push_back(ReadConstant(node, name));
    } else if (node.isEnum()) {
      ReadEnum(node);
    } else if (node.isStruct() && node.getNestedNodes().size() > 0) {
      ConstantGroup& group = model_.constants.emplace_back(ConstantGroup{name, CommentOf(id), {}});
      for (const auto nested : node.getNestedNodes()) {
        group.constants.push_back(ReadConstant(nodes_.at(nested.getId()), nested.getName().cStr()));
      }
    } else if (node.isStruct()) {
      ReadStruct(node, name);
    }
  }

  std::vector<std::string> CommentOf(std::uint64_t id) {
    const auto found = infos_.find(id);
    return found == infos_.end() ? std::vector<std::string>() : Lines(found->second.getDocComment().cStr());
  }
  std::vector<std::string> MemberComment(std::uint64_t id, unsigned index) {
    const auto found = infos_.find(id);
    if (found == infos_.end() || index >= found->second.getMembers().size()) return {};
    return Lines(found->second.getMembers()[index].getDocComment().cStr());
  }

  Constant ReadConstant(schema::Node::Reader node, const std::string& name) {
    const auto value = node.getConst().getValue();
    Constant constant{{}, "k" + Capitalised(name), {}, CommentOf(node.getId())};
    switch (value.which()) {
      case schema::Value::INT32: return Typed(constant, "int", fmt::format("{}", value.getInt32()));
      case schema::Value::UINT32: return Typed(constant, "std::uint32_t", fmt::format("{}", value.getUint32()));
      case schema::Value::UINT64: return Typed(constant, "std::uint64_t", fmt::format("{}", value.getUint64()));
      case schema::Value::FLOAT32: return Typed(constant, "float", Real(value.getFloat32(), 32));
      case schema::Value::FLOAT64: return Typed(constant, "double", Real(value.getFloat64(), 64));
      default: Fail(name + ": a constant of this type has no form in C++");
    }
  }
  static Constant Typed(Constant constant, const char* type, std::string value) {
    constant.type = type;
    constant.value = std::move(value);
    return constant;
  }

  const Enum* ReadEnum(schema::Node::Reader node) {
    const auto known = enums_.find(node.getId());
    if (known != enums_.end()) return known->second;
    auto made = std::make_unique<Enum>();
    const std::string name = node.getDisplayName().slice(node.getDisplayNamePrefixLength()).cStr();
    made->type = name;
    made->schema_type = "schema::" + name;
    if (const auto cxx = Find(node.getAnnotations(), kCxx))
      made->is_existing = cxx->getStruct().getAs<forms::CxxForm>().getExisting();
    made->comment = CommentOf(node.getId());
    unsigned index = 0;
    for (const auto entry : node.getEnum().getEnumerants()) {
      const std::string entry_name = entry.getName().cStr();
      if (Has(entry.getAnnotations(), kUnknown)) made->unknown = index;
      made->entries.push_back({entry_name, "k" + Capitalised(entry_name), MemberComment(node.getId(), index)});
      ++index;
    }
    enums_.emplace(node.getId(), made.get());
    model_.enums.push_back(std::move(made));
    return model_.enums.back().get();
  }

  // The struct of this node, read if it is not yet. `path` is its name in the schema: "Evict::What::Prompt".
  Struct* ReadStruct(schema::Node::Reader node, const std::string& path) {
    const auto known = structs_.find(node.getId());
    if (known != structs_.end()) return known->second;
    auto made = std::make_unique<Struct>();
    Struct& structure = *made;
    structure.id = node.getId();
    structure.schema_type = "schema::" + path;
    structure.path = path;
    std::erase(structure.path, ':');
    structure.type = path;
    structure.comment = CommentOf(node.getId());
    ReadStructWords(node.getAnnotations(), structure);
    ReadFields(node, path, structure);
    ReadShape(node, structure);
    structure.failure = FailureOf(structure);
    structs_.emplace(node.getId(), made.get());
    model_.structs.push_back(std::move(made));
    return model_.structs.back().get();
  }

  void ReadStructWords(Annotations words, Struct& structure) {
    structure.has_check |= Has(words, kCheck);
    if (const auto form = Find(words, kForm)) structure.shape = ShapeOf(form->getEnum());
    if (const auto cxx = Find(words, kCxx)) {
      const auto form = cxx->getStruct().getAs<forms::CxxForm>();
      if (form.hasType()) structure.type = form.getType().cStr();
      structure.is_existing = form.getExisting();
    }
    if (const auto local = Find(words, kLocal)) {
      const auto member = local->getStruct().getAs<forms::Local>();
      structure.local = Local{member.getType().cStr(), member.getName().cStr(), member.getComment().cStr()};
    }
  }
  static Shape ShapeOf(unsigned form) {
    constexpr Shape kShapes[] = {Shape::kStruct, Shape::kKinds, Shape::kSet, Shape::kColumns};
    if (form >= std::size(kShapes)) Fail("an unknown form");
    return kShapes[form];
  }

  void ReadFields(schema::Node::Reader node, const std::string& path, Struct& structure) {
    const std::string prefix = TextOf(node.getAnnotations(), kNamed);
    const auto fields = node.getStruct().getFields();
    std::vector<unsigned> order(fields.size());
    for (unsigned i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](unsigned a, unsigned b) { return fields[a].getCodeOrder() < fields[b].getCodeOrder(); });
    for (const unsigned index : order) {
      Field field = ReadField(fields[index], path, prefix);
      if (const auto comment = MemberComment(node.getId(), index); !comment.empty()) field.comment = comment;
      structure.fields.push_back(std::move(field));
    }
  }

  Field ReadField(schema::Field::Reader in, const std::string& path, const std::string& prefix) {
    Field field;
    const Annotations words = in.getAnnotations();
    field.name = in.getName().cStr();
    field.method = Capitalised(field.name);
    field.member = SnakeCase(field.name);
    field.error = prefix.empty() ? field.name : prefix + "." + field.name;
    if (const std::string named = TextOf(words, kNamed); !named.empty()) field.error = named;
    if (const auto cxx = Find(words, kCxx)) {
      const auto form = cxx->getStruct().getAs<forms::CxxForm>();
      if (in.isSlot()) field.made_type = form.getType().cStr();
      if (form.hasName()) field.member = form.getName().cStr();
      field.initial = form.getInitial().cStr();
    }
    field.least = NumberOf(words, kLeast);
    field.most = NumberOf(words, kMost);
    field.most_entries = NumberOf(words, kMaxEntries);
    field.above = NumberOf(words, kAbove);
    if (const auto text = Find(words, kText)) field.text = static_cast<TextKind>(text->getEnum());
    field.omits_empty = Has(words, kOmitEmpty);
    field.is_cut = Has(words, kCut);
    field.is_optional = Has(words, kOptional) || Has(words, kPresentIf);
    field.present_if = Capitalised(TextOf(words, kPresentIf));
    field.enough_if = TextOf(words, kEnoughIf);
    field.needs = TextOf(words, kNeeds);
    field.shown = TextOf(words, kShown);
    if (const auto choice = Find(words, kChoice)) {
      const auto of_two = choice->getStruct().getAs<forms::Choice>();
      field.choice = Choice{of_two.getType().cStr(), of_two.getNo().cStr(), of_two.getYes().cStr()};
    }
    in.isGroup() ? ReadGroup(in, path, field) : ReadSlot(in, field);
    CheckBounds(path, field);
    return field;
  }

  void ReadGroup(schema::Field::Reader in, const std::string& path, Field& field) {
    const auto node = nodes_.at(in.getGroup().getTypeId());
    field.is_group = true;
    field.type.kind = Kind::kStruct;
    Struct& made = *ReadStruct(node, path + "::" + field.method);
    ReadStructWords(in.getAnnotations(), made);
    if (made.has_check && made.failure == Failure::kNone) made.failure = Failure::kMalformed;
    field.type.structure = &made;
    field.comment = made.comment;
    if (made.shape == Shape::kOptional) made.fields[1].error = field.error;
  }

  void ReadSlot(schema::Field::Reader in, Field& field) {
    const auto slot = in.getSlot();
    field.type = ReadType(slot.getType());
    if (!field.initial.empty()) return;
    const auto value = slot.getDefaultValue();
    switch (value.which()) {
      case schema::Value::BOOL: field.initial = value.getBool() ? "true" : "false"; break;
      case schema::Value::UINT8: field.initial = fmt::format("{}", value.getUint8()); break;
      case schema::Value::UINT16: field.initial = fmt::format("{}", value.getUint16()); break;
      case schema::Value::UINT32: field.initial = fmt::format("{}", value.getUint32()); break;
      case schema::Value::UINT64: field.initial = fmt::format("{}", value.getUint64()); break;
      case schema::Value::FLOAT32: field.initial = Real(value.getFloat32(), 32); break;
      case schema::Value::FLOAT64: field.initial = Real(value.getFloat64(), 64); break;
      case schema::Value::ENUM:
        field.initial =
            field.type.enumeration->type + "::" + field.type.enumeration->entries.at(value.getEnum()).enumerator;
        break;
      default: break;
    }
    if (field.choice)
      field.initial = field.choice->type + "::" + (value.getBool() ? field.choice->yes : field.choice->no);
    if (!field.made_type.empty()) field.initial.clear();
  }

  Type ReadType(schema::Type::Reader in) {
    switch (in.which()) {
      case schema::Type::VOID: return {};
      case schema::Type::BOOL: return {.kind = Kind::kBool};
      case schema::Type::UINT8: return {.kind = Kind::kUnsigned, .bits = 8};
      case schema::Type::UINT16: return {.kind = Kind::kUnsigned, .bits = 16};
      case schema::Type::UINT32: return {.kind = Kind::kUnsigned, .bits = 32};
      case schema::Type::UINT64: return {.kind = Kind::kUnsigned, .bits = 64};
      case schema::Type::FLOAT32: return {.kind = Kind::kReal, .bits = 32};
      case schema::Type::FLOAT64: return {.kind = Kind::kReal, .bits = 64};
      case schema::Type::TEXT: return {.kind = Kind::kText};
      case schema::Type::DATA: return {.kind = Kind::kData};
      case schema::Type::ENUM: {
        const Enum* const read = ReadEnum(nodes_.at(in.getEnum().getTypeId()));
        return {.kind = Kind::kEnum, .enumeration = read};
      }
      case schema::Type::STRUCT: {
        const auto node = nodes_.at(in.getStruct().getTypeId());
        const std::string name = node.getDisplayName().slice(node.getDisplayNamePrefixLength()).cStr();
        return {.kind = Kind::kStruct, .structure = ReadStruct(node, name)};
      }
      case schema::Type::LIST:
        return {.kind = Kind::kList, .element = std::make_shared<Type>(ReadType(in.getList().getElementType()))};
      default: Fail("a field of a type that has no form in C++");
    }
  }

  static void CheckBounds(const std::string& path, const Field& field) {
    const bool is_list = field.type.kind == Kind::kList;
    const bool has_bound = field.most || (is_list && field.type.element->kind == Kind::kReal);
    const bool has_bytes = field.type.kind == Kind::kText || field.type.kind == Kind::kData;
    if ((is_list || has_bytes) && !has_bound) {
      Fail(fmt::format("{}.{}: a list, text or data needs $most", path, field.name));
    }
    if (is_list && field.type.element->kind == Kind::kText && !field.most_entries) {
      Fail(fmt::format("{}.{}: a list of texts needs $mostEntries", path, field.name));
    }
  }

  // The shape of a union, which no word tells.
  static void ReadShape(schema::Node::Reader node, Struct& structure) {
    const unsigned alternatives = node.getStruct().getDiscriminantCount();
    if (structure.shape != Shape::kStruct || alternatives == 0) return;
    if (alternatives != structure.fields.size()) {
      Fail(structure.type + ": a union beside fields needs a name");
    }
    const bool is_optional = alternatives == 2 && structure.fields[0].type.kind == Kind::kVoid;
    structure.shape = is_optional ? Shape::kOptional : Shape::kVariant;
    structure.is_message = !is_optional && !node.getStruct().getIsGroup();
  }

  static Failure FailureOf(const Field& field) {
    switch (field.type.kind) {
      case Kind::kStruct: return field.type.structure->failure;
      case Kind::kList:
      case Kind::kText:
      case Kind::kData: return Failure::kMalformed;
      default: return field.least || field.most || field.above ? Failure::kMalformed : Failure::kNone;
    }
  }
  static Failure FailureOf(const Struct& structure) {
    Failure failure = structure.has_check ? Failure::kMalformed : Failure::kNone;
    for (const Field& field : structure.fields) failure = std::max(failure, FailureOf(field));
    if (structure.shape == Shape::kKinds || structure.shape == Shape::kVariant) failure = Failure::kUnknown;
    return failure;
  }

  schema::CodeGeneratorRequest::Reader request_;
  std::map<std::uint64_t, schema::Node::Reader> nodes_;
  std::map<std::uint64_t, schema::Node::SourceInfo::Reader> infos_;
  std::map<std::uint64_t, const Enum*> enums_;
  std::map<std::uint64_t, Struct*> structs_;
  Model model_;
};

}  // namespace

void Fail(const std::string& message) {
  std::fprintf(stderr, "roost_schema_generator: %s\n", message.c_str());
  std::exit(1);
}

Model ReadModel(capnp::schema::CodeGeneratorRequest::Reader request) { return Reader(request).Read(); }

std::string SnakeCase(const std::string& name) {
  std::string snake;
  for (const char c : name) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0 && !snake.empty()) snake += '_';
    snake += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return snake;
}

std::string Capitalised(const std::string& name) {
  std::string result = name;
  if (!result.empty()) result[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(result[0])));
  return result;
}

std::string ValueType(const Type& type) {
  switch (type.kind) {
    case Kind::kVoid: return "std::monostate";
    case Kind::kBool: return "bool";
    case Kind::kUnsigned: return type.bits == 64 ? "std::uint64_t" : "std::uint32_t";
    case Kind::kReal: return type.bits == 64 ? "double" : "float";
    case Kind::kText:
    case Kind::kData: return "std::string";
    case Kind::kEnum: return type.enumeration->type;
    case Kind::kList: return fmt::format("std::vector<{}>", ValueType(*type.element));
    case Kind::kStruct: break;
  }
  const Struct& structure = *type.structure;
  switch (structure.shape) {
    case Shape::kOptional: return fmt::format("std::optional<{}>", ValueType(structure.fields.at(1)));
    case Shape::kColumns: return fmt::format("std::vector<{}>", structure.type);
    case Shape::kSet: return structure.type + "s";
    case Shape::kVariant: {
      if (structure.is_message) return structure.type;
      std::string alternatives;
      for (const Field& field : structure.fields) {
        alternatives += (alternatives.empty() ? "" : ", ") + ValueType(field);
      }
      return fmt::format("std::variant<{}>", alternatives);
    }
    default: return structure.type;
  }
}

std::string ValueType(const Field& field) {
  if (!field.made_type.empty()) return field.made_type;
  if (field.choice) return field.choice->type;
  return ValueType(field.type);
}

}  // namespace roost::generator
