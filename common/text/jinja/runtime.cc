#include "common/text/jinja/runtime.h"

namespace roost::jinja {
namespace {

constexpr std::uint64_t kContainerBytes = 96;  // the object, its control block and the allocator's share

Error NotOwned() {
  return InvalidArgument("", "the template may not change its input, only lists and dicts that it made itself");
}

Error TooNested() { return InvalidArgument("", "containers are nested more than {} deep", kMaxNesting); }

}  // namespace

Runtime::~Runtime() {
  for (const auto& list : changed_lists_) list->items.clear();
  for (const auto& dict : changed_dicts_) dict->Clear();
  for (const auto& object : objects_) object->Release();
}

Error Runtime::SpentSteps() const { return InvalidArgument("", "rendering takes more than {} steps", limits_.steps); }

Result<void> Runtime::Spend(std::uint64_t steps) {
  if (!TrySpend(steps)) return SpentSteps();
  return {};
}

Result<void> Runtime::AllowText(std::uint64_t size) const {
  if (size <= limits_.text_bytes) return {};
  return InvalidArgument("", "a text grows over {} bytes", limits_.text_bytes);
}

Result<void> Runtime::SpendBytes(std::uint64_t bytes) {
  if (bytes > limits_.value_bytes - bytes_) {
    return InvalidArgument("", "rendering makes more than {} bytes of values", limits_.value_bytes);
  }
  bytes_ += bytes;
  return {};
}

Result<Value> Runtime::NewString(std::string text, Markup markup) {
  ROOST_RETURN_IF_ERROR(AllowText(text.size()));
  ROOST_RETURN_IF_ERROR(SpendBytes(text.size() + kContainerBytes));
  return Value::String(std::move(text), markup);
}

Result<Value> Runtime::NewString(TracedText text, Markup markup) {
  ROOST_RETURN_IF_ERROR(AllowText(text.size()));
  ROOST_RETURN_IF_ERROR(SpendBytes(text.size() + kContainerBytes + text.written.size() * sizeof(ByteRange)));
  return Value::String(std::move(text), markup);
}

Result<Value> Runtime::NewSequence(SequenceKind kind, std::vector<Value> items) {
  ROOST_RETURN_IF_ERROR(SpendBytes(items.size() * sizeof(Value) + kContainerBytes));
  auto sequence = std::make_shared<Sequence>(kind, std::move(items), Mutability::kMutable);
  if (sequence->nesting > kMaxNesting) return TooNested();
  return Value::Of(std::move(sequence));
}

Result<Value> Runtime::NewDict(Dict dict) {
  ROOST_RETURN_IF_ERROR(SpendBytes(dict.entries().size() * sizeof(Dict::Entry) + kContainerBytes));
  if (dict.nesting() > kMaxNesting) return TooNested();
  dict.set_mutability(Mutability::kMutable);
  return Value::Mapping(std::move(dict));
}

Result<Value> Runtime::NewObject(std::shared_ptr<Object> object) {
  ROOST_RETURN_IF_ERROR(SpendBytes(2 * kContainerBytes));
  objects_.push_back(object);
  return Value::Of(std::move(object));
}

Result<void> Runtime::BeginChange(const std::shared_ptr<Sequence>& list, const Value& adding) {
  if (list->mutability == Mutability::kFrozen) return NotOwned();
  if (adding.nesting() >= kMaxNesting) return TooNested();
  ROOST_RETURN_IF_ERROR(SpendBytes(2 * sizeof(Value)));
  if (changed_lists_.empty() || changed_lists_.back() != list) changed_lists_.push_back(list);
  return {};
}

Result<void> Runtime::BeginChange(const std::shared_ptr<Dict>& dict, const Value& adding) {
  if (dict->mutability() == Mutability::kFrozen) return NotOwned();
  if (adding.nesting() >= kMaxNesting) return TooNested();
  ROOST_RETURN_IF_ERROR(SpendBytes(2 * sizeof(Dict::Entry)));
  if (changed_dicts_.empty() || changed_dicts_.back() != dict) changed_dicts_.push_back(dict);
  return {};
}

}  // namespace roost::jinja
