// What loops know of where they are.
#include <apps/llm/chat/loop.hpp>

#include <algorithm>

namespace llm::chat {

Result<bool> Loop::next(Budget& budget, Value& value) {
  GPUACTORS_LET(coming, look_ahead(budget));
  if (!coming)
    return false;
  ++taken_;
  ++index0_;
  before_ = std::exchange(now_, coming);
  value = *coming;
  return true;
}

Result<std::optional<Value>> Loop::look_ahead(Budget& budget) {
  if (taken_ < ahead_.size())
    return std::optional{ahead_[taken_]};
  ahead_.clear();
  taken_ = 0;
  Value value;
  GPUACTORS_LET(has_one, iterator_->next(budget, value));
  if (!has_one)
    return std::optional<Value>{};
  ahead_.push_back(value);
  return std::optional{std::move(value)};
}

Result<std::int64_t> Loop::length(Budget& budget) {
  if (length_)
    return *length_;
  Value value;
  for (;;) {
    GPUACTORS_LET(has_one, iterator_->next(budget, value));
    if (!has_one)
      break;
    GPUACTORS_TRY(budget.take(sizeof(Value)));
    ahead_.push_back(value);
  }
  length_ = index0_ + 1 + static_cast<std::int64_t>(ahead_.size() - taken_);
  return *length_;
}

Result<Value> Loop::attribute(Budget& budget, std::string_view name) {
  if (name == "index" || name == "index0")
    return Value{name == "index" ? index0_ + 1 : index0_};
  if (name == "depth" || name == "depth0")
    return Value{std::int64_t{name == "depth" ? 1 : 0}};
  if (name == "first")
    return Value{index0_ == 0};
  if (name == "previtem")
    return index0_ > 0 ? *before_ : undefined("asks for the item before the first of a loop");
  if (name == "last" || name == "nextitem") {
    GPUACTORS_LET(coming, look_ahead(budget));
    if (name == "last")
      return Value{!coming.has_value()};
    return coming ? *coming : undefined("asks for the item behind the last of a loop");
  }
  if (name == "cycle" || name == "changed")
    return unknown("takes a method of loop as a value");
  GPUACTORS_LET(all, length(budget));
  return Value{name == "length" ? all : name == "revindex" ? all - index0_ : all - index0_ - 1};
}

Result<Value> Loop::cycle(const std::vector<Value>& values) const {
  if (values.empty())
    return wrong("calls loop.cycle() without values");
  return values[static_cast<std::size_t>(index0_) % values.size()];
}

Result<Value> Loop::changed(Budget& budget, const std::vector<Value>& values) {
  bool is_same = told_ && told_->size() == values.size();
  for (std::size_t i = 0; is_same && i < values.size(); ++i) {
    GPUACTORS_LET(is_equal, equal(budget, (*told_)[i], values[i]));
    is_same = is_equal;
  }
  if (!is_same)
    told_ = values;
  return Value{!is_same};
}

} // namespace llm::chat
