// The values that templates compute with: those of Python, as far as templates see them.
#pragma once

#include <apps/llm/chat/budget.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace llm::chat {

struct Value;
struct Statement;
struct Environment;
class Loop;
class Iterator;

using Text = std::shared_ptr<const std::string>;

/// A variable that has not been set. It becomes an `Undefined` when it is read.
struct Missing {};

/// Jinja's Undefined: empty and false, but most that is done with it is an error, which says `why`.
struct Undefined {
  Text why;
};

struct None {};

/// Values in order. `depth`: of how many lists in each other it consists.
struct Items {
  std::vector<Value> values;
  int depth = 1;
};

struct List {
  std::shared_ptr<const Items> items;
};

struct Tuple {
  std::shared_ptr<const Items> items;
};

struct Entries {
  std::vector<std::pair<Value, Value>> pairs;
  int depth = 1;
};

struct Dict {
  std::shared_ptr<const Entries> entries;
};

/// What items(), keys() and values() of a dict return.
struct View {
  enum class Kind { items, keys, values };
  Kind kind;
  std::shared_ptr<const Entries> entries;
};

/// A range with `length` numbers.
struct Range {
  std::int64_t start = 0, stop = 0, step = 1, length = 0;
};

/// What can be gone through once: many filters return it.
struct Generator {
  std::shared_ptr<Iterator> iterator;
};

/// The only value that templates change. They belong to the rendering, since they may hold each other.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct NamespaceRef {
  Namespace* space;
};

struct MacroRef {
  const Statement* macro;
  /// The variables around it.
  Environment* around;
};

struct LoopRef {
  Loop* loop;
};

/// A method with the value that it belongs to.
struct Method {
  std::string_view name;
  std::shared_ptr<const Value> self;
};

enum class Function { range, dict, make_namespace, raise_exception, strftime_now };

struct Value {
  using State = std::variant<Missing, Undefined, None, bool, std::int64_t, double, Text, List, Tuple, Dict, View, Range,
                             Generator, NamespaceRef, MacroRef, LoopRef, Method, Function>;
  State state;

  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&state);
  }

  template <class T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(state);
  }

  /// Null if it is no text.
  [[nodiscard]] const std::string* text() const {
    const auto* text = as<Text>();
    return text == nullptr ? nullptr : text->get();
  }

  /// The values of a list or a tuple, or null.
  [[nodiscard]] const Items* items() const;

  [[nodiscard]] const Entries* entries() const {
    const auto* dict = as<Dict>();
    return dict == nullptr ? nullptr : dict->entries.get();
  }
};

/// The variables of a function while it runs.
struct Environment {
  std::vector<Value> slots;
  Environment* around = nullptr;
};

/// What a template goes through.
class Iterator {
public:
  virtual ~Iterator() = default;

  /// Sets `value` to the next one. @returns whether there is one.
  virtual Result<bool> next(Budget& budget, Value& value) = 0;

  /// Of how many values in each other it consists.
  [[nodiscard]] virtual int depth() const {
    return 1;
  }
};

// -- making values ----------------------------------------------------------------------------

/// Values in each other, at most: what works on them calls itself so often.
inline constexpr int most_values_in_each_other = 100;

[[nodiscard]] Value undefined(std::string why);
/// The same, of a sentence that is made for it.
Result<Value> make_undefined(Budget& budget, std::string why);
/// Without a charge: of what is small, or charged already.
[[nodiscard]] Value text_value(std::string text);
Result<Value> make_text(Budget& budget, std::string text);
Result<Value> make_list(Budget& budget, std::vector<Value> values);
Result<Value> make_tuple(Budget& budget, std::vector<Value> values);
/// @param pairs have different keys.
Result<Value> make_dict(Budget& budget, std::vector<std::pair<Value, Value>> pairs);
Result<Value> make_generator(std::shared_ptr<Iterator> iterator);
/// Adds a pair, or replaces the value of an equal key. @returns an error for a key that cannot be one.
Result<void> set_entry(Budget& budget, std::vector<std::pair<Value, Value>>& pairs, Value key, Value value);

// -- asking values ----------------------------------------------------------------------------

[[nodiscard]] int depth_of(const Value& value);
/// For sentences: "a text", "a list".
[[nodiscard]] std::string_view kind_of(const Value& value);
/// For sentences: a name, or the beginning of a long one.
[[nodiscard]] std::string_view shown_name(std::string_view name);
[[nodiscard]] bool is_true(const Value& value);
/// Whether it is a number of Python: true and false are some too.
[[nodiscard]] bool is_number(const Value& value);
/// The whole number that a value is, true and false included, or null.
[[nodiscard]] std::optional<std::int64_t> whole_of(const Value& value);
Result<std::int64_t> length_of(const Value& value);
/// The number of a range at an index that it has.
[[nodiscard]] std::int64_t number_at(const Range& range, std::int64_t index);

// -- comparing values (compare.cpp) -----------------------------------------------------------

Result<bool> equal(Budget& budget, const Value& left, const Value& right);
/// Less than 0, 0 or more, as `left` comes before `right`; an error if they have no order.
Result<int> order(Budget& budget, const Value& left, const Value& right);
Result<bool> contains(Budget& budget, const Value& container, const Value& value);
/// Null if no key is equal. @returns an error for a key that cannot be one.
Result<const Value*> find_entry(Budget& budget, const Entries& entries, const Value& key);

// -- going through values (iterate.cpp) -------------------------------------------------------

Result<std::shared_ptr<Iterator>> iterate(const Value& value);
[[nodiscard]] bool can_iterate(const Value& value);
/// From the last to the first, for what Python's reversed takes.
Result<std::shared_ptr<Iterator>> iterate_reversed(const Value& value);
Result<std::vector<Value>> all_of(Budget& budget, const Value& value);

// -- writing values (print.cpp) ---------------------------------------------------------------

/// As Python's str() has it.
Result<void> write(Writer& writer, const Value& value);
Result<Text> to_text(Budget& budget, const Value& value);
/// As Python's repr() has it: the shortest that reads as the same number.
[[nodiscard]] std::string print_number(double number);

} // namespace llm::chat
