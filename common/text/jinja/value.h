// The values that templates compute with: Python's, as far as chat templates use them.
//
//   Undefined    a missing name or attribute; prints as nothing, and using it further is an error
//   None, Bool, Int (64 bits), Float
//   String       UTF-8, immutable; marked when it came from |safe or |escape; knows its written ranges
//   Sequence     list, tuple, range, the result of a lazy filter, or a view of a dict
//   Dict         ordered as inserted
//   Object       exists only while a template runs: namespace, macro, bound method, loop
//
// A Value is cheap to copy: strings and containers are shared. A render never changes values that its caller made, so
// one context may serve many threads. Containers that a template makes belong to that render.
//
// Nesting is limited when a container is made (kMaxNesting), so writing, comparing and destroying may recurse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/text/jinja/traced_text.h"

namespace roost::jinja {

// The most that containers may nest. Client JSON nests less (kMaxJsonDepth).
inline constexpr int kMaxNesting = 700;

enum class Kind { kUndefined, kNone, kBool, kInt, kFloat, kString, kSequence, kDict, kObject };
enum class Mutability { kFrozen, kMutable };
enum class Markup { kNo, kYes };

struct Text {
  std::string bytes;
  Markup markup = Markup::kNo;
  WrittenRanges written;
};

struct Sequence;
class Dict;
class Object;

class Value {
 public:
  Value() = default;  // undefined, without a reason

  // `reason` becomes the error message if the template uses the value further.
  static Value Undefined(std::string reason);  // only the beginning of a long reason is kept
  static Value None() { return Value(Storage(std::in_place_index<1>)); }
  static Value Bool(bool value) { return Value(Storage(std::in_place_index<2>, value)); }
  static Value Int(std::int64_t value) { return Value(Storage(std::in_place_index<3>, value)); }
  static Value Float(double value) { return Value(Storage(std::in_place_index<4>, value)); }
  // A number of JSON that neither of them holds: computes as the nearest Float, and is written as it is.
  static Value KeptNumber(std::string text);
  // Counts as given, like a client's texts.
  static Value String(std::string text, Markup markup = Markup::kNo);
  static Value String(TracedText text, Markup markup = Markup::kNo);
  // Counts as written, like text in the template.
  static Value WrittenString(std::string text) { return String(TracedText::Written(std::move(text))); }
  static Value List(std::vector<Value> items);
  static Value Tuple(std::vector<Value> items);
  static Value Of(std::shared_ptr<Sequence> sequence) { return Value(Storage(std::move(sequence))); }
  static Value Of(std::shared_ptr<Dict> dict) { return Value(Storage(std::move(dict))); }
  static Value Of(std::shared_ptr<Object> object) { return Value(Storage(std::move(object))); }
  static Value Mapping(Dict dict);

  [[nodiscard]] Kind kind() const {
    return storage_.index() == kKeptNumber ? Kind::kFloat : static_cast<Kind>(storage_.index());
  }
  [[nodiscard]] bool is(Kind wanted) const { return kind() == wanted; }
  [[nodiscard]] bool is_number() const { return is(Kind::kInt) || is(Kind::kFloat) || is(Kind::kBool); }

  // Each requires the value's kind.
  [[nodiscard]] bool AsBool() const { return *std::get_if<2>(&storage_); }
  [[nodiscard]] std::int64_t AsInt() const { return *std::get_if<3>(&storage_); }
  [[nodiscard]] double AsFloat() const;
  // Python's text of a Float.
  [[nodiscard]] std::string FloatText() const;
  [[nodiscard]] const std::string& AsString() const { return (*std::get_if<5>(&storage_))->bytes; }
  [[nodiscard]] const WrittenRanges& written() const { return (*std::get_if<5>(&storage_))->written; }
  // Is all of it written? False for containers, whatever they hold.
  [[nodiscard]] bool IsAllWritten() const;
  [[nodiscard]] bool IsMarkup() const {
    return is(Kind::kString) && (*std::get_if<5>(&storage_))->markup == Markup::kYes;
  }
  [[nodiscard]] Sequence& AsSequence() const { return **std::get_if<6>(&storage_); }
  [[nodiscard]] const std::shared_ptr<Sequence>& SharedSequence() const { return *std::get_if<6>(&storage_); }
  [[nodiscard]] Dict& AsDict() const { return **std::get_if<7>(&storage_); }
  [[nodiscard]] const std::shared_ptr<Dict>& SharedDict() const { return *std::get_if<7>(&storage_); }
  [[nodiscard]] Object& AsObject() const { return **std::get_if<8>(&storage_); }
  [[nodiscard]] const std::shared_ptr<Object>& SharedObject() const { return *std::get_if<8>(&storage_); }
  [[nodiscard]] std::string_view UndefinedReason() const;

  // Converts as Python's numbers do: bools and integers to an integer, and these and floats to a float.
  [[nodiscard]] std::optional<std::int64_t> ToInteger() const;
  [[nodiscard]] std::optional<double> ToDouble() const;

  // Python's bool(value).
  [[nodiscard]] bool IsTrue() const;
  // Do both share one object, or have the same small value? Python's `is`.
  [[nodiscard]] bool IsSameAs(const Value& other) const;
  // Levels of nested containers, including this one: 0 for anything else.
  [[nodiscard]] int nesting() const;
  // "str", "list", "dict"…, as in Python's messages.
  [[nodiscard]] std::string_view TypeName() const;

 private:
  using Storage = std::variant<std::shared_ptr<const std::string>, std::monostate, bool, std::int64_t, double,
                               std::shared_ptr<const Text>, std::shared_ptr<Sequence>, std::shared_ptr<Dict>,
                               std::shared_ptr<Object>, std::shared_ptr<const std::string>>;
  static constexpr std::size_t kKeptNumber = 9;
  explicit Value(Storage storage) : storage_(std::move(storage)) {}

  Storage storage_;
};

enum class SequenceKind { kList, kTuple, kRange, kGenerator, kKeys, kValues, kItems };

struct Sequence {
  Sequence(SequenceKind sequence_kind, std::vector<Value> values, Mutability may_change = Mutability::kFrozen);

  // The items not yet taken: a generator yields each item once, others yield all of them every time.
  [[nodiscard]] std::vector<Value> TakeRest();

  SequenceKind kind;
  Mutability mutability;
  int nesting;  // of the items that it was made with, plus one
  std::vector<Value> items;
  std::size_t taken = 0;  // items that a generator has yielded
};

// Keys are strings, numbers, bools and None; 1, 1.0 and true are one key, as in Python. Lookup by string is linear up
// to kLinearEntries entries and logarithmic above, whatever keys a client chose; other keys are always linear.
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };

  static bool IsKey(const Value& value);

  [[nodiscard]] const Value* Find(std::string_view key) const;
  [[nodiscard]] const Value* Find(const Value& key) const;
  // A new key goes last; an existing one keeps its place. Requires IsKey(key).
  void Set(Value key, Value value);
  void Set(std::string_view key, Value value) { Set(Value::String(std::string(key)), std::move(value)); }
  std::optional<Value> Remove(const Value& key);
  void Clear();

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] int nesting() const { return nesting_; }
  [[nodiscard]] Mutability mutability() const { return mutability_; }
  void set_mutability(Mutability mutability) { mutability_ = mutability; }

 private:
  static constexpr std::size_t kLinearEntries = 16;

  [[nodiscard]] std::optional<std::size_t> Locate(std::string_view key) const;
  [[nodiscard]] std::optional<std::size_t> Locate(const Value& key) const;
  void Reindex();

  std::vector<Entry> entries_;
  // Index of the string keys, which point into entries_; empty up to kLinearEntries entries.
  std::map<std::string_view, std::size_t> index_;
  Mutability mutability_ = Mutability::kFrozen;
  int nesting_ = 1;
};

enum class ObjectKind { kNamespace, kMacro, kFunction, kBoundMethod, kLoop, kCycler, kJoiner };

// The interpreter's own values; each kind is defined in the file that uses it.
class Object {
 public:
  explicit Object(ObjectKind kind) : kind_(kind) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  [[nodiscard]] ObjectKind object_kind() const { return kind_; }
  // Releases every value it holds, to break cycles when a render ends.
  virtual void Release() {}

 private:
  ObjectKind kind_;
};

// The dict with another value for one of its members, or one member more. O(members).
[[nodiscard]] Value WithMember(const Value& dict, std::string_view name, Value value);

}  // namespace roost::jinja
