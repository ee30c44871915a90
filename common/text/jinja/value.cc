#include "common/text/jinja/value.h"

#include <algorithm>
#include <cstdlib>

#include "common/base/utf8.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {

Value Value::Undefined(std::string reason) {
  // The reason may quote a key of any length, and the template may keep any number of such values.
  constexpr std::size_t kMaxReasonBytes = 256;
  if (reason.size() > kMaxReasonBytes) {
    reason.resize(kMaxReasonBytes - IncompleteUtf8Suffix(std::string_view(reason).substr(0, kMaxReasonBytes)));
    reason.shrink_to_fit();
    reason += "…";
  }
  return Value(Storage(std::in_place_index<0>, std::make_shared<const std::string>(std::move(reason))));
}

Value Value::KeptNumber(std::string text) {
  return Value(Storage(std::in_place_index<kKeptNumber>, std::make_shared<const std::string>(std::move(text))));
}

double Value::AsFloat() const {
  const auto* digits = std::get_if<kKeptNumber>(&storage_);
  return digits == nullptr ? *std::get_if<4>(&storage_) : std::strtod((*digits)->c_str(), nullptr);
}

std::string Value::FloatText() const {
  const auto* digits = std::get_if<kKeptNumber>(&storage_);
  return digits == nullptr ? FormatFloat(AsFloat()) : **digits;
}

Value Value::String(std::string text, Markup markup) {
  return Value(Storage(std::in_place_index<5>, std::make_shared<const Text>(Text{std::move(text), markup, {}})));
}

Value Value::String(TracedText text, Markup markup) {
  return Value(Storage(std::in_place_index<5>,
                       std::make_shared<const Text>(Text{std::move(text.bytes), markup, std::move(text.written)})));
}

bool Value::IsAllWritten() const {
  if (!is(Kind::kString)) return is_number() || is(Kind::kNone) || is(Kind::kUndefined);
  const std::size_t size = AsString().size();
  return size == 0 || (!written().empty() && written().front() == ByteRange{0, size});
}

Value Value::List(std::vector<Value> items) {
  return Of(std::make_shared<Sequence>(SequenceKind::kList, std::move(items)));
}

Value Value::Tuple(std::vector<Value> items) {
  return Of(std::make_shared<Sequence>(SequenceKind::kTuple, std::move(items)));
}

Value Value::Mapping(Dict dict) { return Of(std::make_shared<Dict>(std::move(dict))); }

std::string_view Value::UndefinedReason() const {
  const auto& reason = *std::get_if<0>(&storage_);
  return reason == nullptr ? std::string_view("value is undefined") : std::string_view(*reason);
}

std::optional<std::int64_t> Value::ToInteger() const {
  if (is(Kind::kInt)) return AsInt();
  if (is(Kind::kBool)) return AsBool() ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::ToDouble() const {
  if (is(Kind::kFloat)) return AsFloat();
  if (const auto integer = ToInteger()) return static_cast<double>(*integer);
  return std::nullopt;
}

bool Value::IsTrue() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool: return AsBool();
    case Kind::kInt: return AsInt() != 0;
    case Kind::kFloat: return AsFloat() != 0;
    case Kind::kString: return !AsString().empty();
    case Kind::kSequence: return AsSequence().kind == SequenceKind::kGenerator || !AsSequence().items.empty();
    case Kind::kDict: return !AsDict().entries().empty();
    case Kind::kObject: return true;
  }
  return false;
}

bool Value::IsSameAs(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kBool: return AsBool() == other.AsBool();
    case Kind::kInt: return AsInt() == other.AsInt();
    case Kind::kFloat: return AsFloat() == other.AsFloat();
    case Kind::kString: return AsString() == other.AsString();
    default: return storage_ == other.storage_;
  }
}

int Value::nesting() const {
  if (is(Kind::kSequence)) return AsSequence().nesting;
  if (is(Kind::kDict)) return AsDict().nesting();
  return 0;
}

namespace {

std::string_view NameOf(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::kList: return "list";
    case SequenceKind::kTuple: return "tuple";
    case SequenceKind::kRange: return "range";
    case SequenceKind::kGenerator: return "generator";
    case SequenceKind::kKeys: return "dict_keys";
    case SequenceKind::kValues: return "dict_values";
    case SequenceKind::kItems: return "dict_items";
  }
  return "sequence";
}

std::string_view NameOf(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kNamespace: return "Namespace";
    case ObjectKind::kMacro: return "Macro";
    case ObjectKind::kFunction: return "function";
    case ObjectKind::kBoundMethod: return "method";
    case ObjectKind::kLoop: return "LoopContext";
    case ObjectKind::kCycler: return "Cycler";
    case ObjectKind::kJoiner: return "Joiner";
  }
  return "object";
}

int DeepestOf(const std::vector<Value>& items) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.nesting());
  return deepest;
}

bool EqualKeys(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) return a.ToDouble() == b.ToDouble();
    return a.ToInteger() == b.ToInteger();
  }
  return a.IsSameAs(b);
}

}  // namespace

std::string_view Value::TypeName() const {
  switch (kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return IsMarkup() ? "Markup" : "str";
    case Kind::kSequence: return NameOf(AsSequence().kind);
    case Kind::kDict: return "dict";
    case Kind::kObject: return NameOf(AsObject().object_kind());
  }
  return "object";
}

Sequence::Sequence(SequenceKind sequence_kind, std::vector<Value> values, Mutability may_change)
    : kind(sequence_kind), mutability(may_change), nesting(DeepestOf(values) + 1), items(std::move(values)) {}

std::vector<Value> Sequence::TakeRest() {
  if (kind != SequenceKind::kGenerator) return items;
  std::vector<Value> rest(items.begin() + static_cast<std::ptrdiff_t>(taken), items.end());
  taken = items.size();
  return rest;
}

bool Dict::IsKey(const Value& value) { return value.is(Kind::kString) || value.is_number() || value.is(Kind::kNone); }

std::optional<std::size_t> Dict::Locate(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].key.is(Kind::kString) && entries_[i].key.AsString() == key) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> Dict::Locate(const Value& key) const {
  if (key.is(Kind::kString)) return Locate(std::string_view(key.AsString()));
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (EqualKeys(entries_[i].key, key)) return i;
  }
  return std::nullopt;
}

const Value* Dict::Find(std::string_view key) const {
  const auto place = Locate(key);
  return place ? &entries_[*place].value : nullptr;
}

const Value* Dict::Find(const Value& key) const {
  const auto place = Locate(key);
  return place ? &entries_[*place].value : nullptr;
}

void Dict::Set(Value key, Value value) {
  nesting_ = std::max(nesting_, value.nesting() + 1);
  if (const auto place = Locate(key)) {
    entries_[*place].value = std::move(value);
    return;
  }
  entries_.push_back(Entry{std::move(key), std::move(value)});
  if (entries_.size() <= kLinearEntries) return;
  if (index_.empty()) return Reindex();
  if (entries_.back().key.is(Kind::kString)) index_.emplace(entries_.back().key.AsString(), entries_.size() - 1);
}

std::optional<Value> Dict::Remove(const Value& key) {
  const auto place = Locate(key);
  if (!place) return std::nullopt;
  Value removed = std::move(entries_[*place].value);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(*place));
  Reindex();
  return removed;
}

void Dict::Clear() {
  entries_.clear();
  index_.clear();
}

void Dict::Reindex() {
  index_.clear();
  if (entries_.size() <= kLinearEntries) return;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].key.is(Kind::kString)) index_.emplace(entries_[i].key.AsString(), i);
  }
}

Value WithMember(const Value& dict, std::string_view name, Value value) {
  Dict changed;
  for (const Dict::Entry& entry : dict.AsDict().entries()) changed.Set(entry.key, entry.value);
  changed.Set(name, std::move(value));
  return Value::Mapping(std::move(changed));
}

}  // namespace roost::jinja
