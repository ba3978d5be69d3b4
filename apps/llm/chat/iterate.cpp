// Going through values.
#include <apps/llm/chat/text.hpp>
#include <apps/llm/chat/value.hpp>

#include <fmt/format.h>

namespace llm::chat {

namespace {

/// Goes through what has numbered values.
template <class At>
class Counted : public Iterator {
public:
  Counted(At at, std::size_t size, bool is_reversed, int depth)
    : at_(std::move(at)), size_(size), is_reversed_(is_reversed), depth_(depth) {
    // nop
  }

  Result<bool> next(Budget& budget, Value& value) override {
    GPUACTORS_TRY(budget.step());
    if (done_ >= size_)
      return false;
    GPUACTORS_LET(found, at_(budget, is_reversed_ ? size_ - 1 - done_ : done_));
    value = std::move(found);
    ++done_;
    return true;
  }

  [[nodiscard]] int depth() const override {
    return depth_;
  }

private:
  At at_;
  std::size_t size_;
  bool is_reversed_;
  int depth_;
  std::size_t done_ = 0;
};

template <class At>
std::shared_ptr<Iterator> count(At at, std::size_t size, bool is_reversed, int depth = 1) {
  return std::make_shared<Counted<At>>(std::move(at), size, is_reversed, depth);
}

class Characters : public Iterator {
public:
  explicit Characters(Text text) : text_(std::move(text)) {
    // nop
  }

  Result<bool> next(Budget& budget, Value& value) override {
    GPUACTORS_TRY(budget.step());
    if (at_ >= text_->size())
      return false;
    const auto begin = at_;
    next_character(*text_, at_);
    GPUACTORS_LET(made, make_text(budget, text_->substr(begin, at_ - begin)));
    value = std::move(made);
    return true;
  }

private:
  Text text_;
  std::size_t at_ = 0;
};

class ReversedCharacters : public Iterator {
public:
  explicit ReversedCharacters(Text text) : text_(std::move(text)), at_(text_->size()) {
    // nop
  }

  Result<bool> next(Budget& budget, Value& value) override {
    GPUACTORS_TRY(budget.step());
    if (at_ == 0)
      return false;
    const auto end = at_;
    previous_character(*text_, at_);
    GPUACTORS_LET(made, make_text(budget, text_->substr(at_, end - at_)));
    value = std::move(made);
    return true;
  }

private:
  Text text_;
  std::size_t at_;
};

std::shared_ptr<Iterator> go_through(std::shared_ptr<const Entries> entries, View::Kind kind, bool is_reversed) {
  const auto size = entries->pairs.size();
  const auto depth = entries->depth;
  auto at = [entries = std::move(entries), kind](Budget& budget, std::size_t index) -> Result<Value> {
    const auto& [key, value] = entries->pairs[index];
    if (kind == View::Kind::items)
      return make_tuple(budget, {key, value});
    return kind == View::Kind::keys ? key : value;
  };
  return count(std::move(at), size, is_reversed, depth);
}

/// Null for what has no numbered values.
std::shared_ptr<Iterator> go_through(const Value& value, bool is_reversed) {
  if (value.is<List>() || value.is<Tuple>()) {
    auto items = value.is<List>() ? value.as<List>()->items : value.as<Tuple>()->items;
    const auto size = items->values.size();
    const auto depth = items->depth;
    auto at = [items = std::move(items)](Budget&, std::size_t index) -> Result<Value> { return items->values[index]; };
    return count(std::move(at), size, is_reversed, depth);
  }
  if (const auto* dict = value.as<Dict>())
    return go_through(dict->entries, View::Kind::keys, is_reversed);
  if (const auto* view = value.as<View>())
    return go_through(view->entries, view->kind, is_reversed);
  if (const auto* range = value.as<Range>()) {
    auto at = [range = *range](Budget&, std::size_t index) -> Result<Value> {
      return Value{number_at(range, static_cast<std::int64_t>(index))};
    };
    return count(std::move(at), static_cast<std::size_t>(range->length), is_reversed);
  }
  if (value.is<Undefined>())
    return count([](Budget&, std::size_t) -> Result<Value> { return Value{}; }, 0, false);
  return nullptr;
}

} // namespace

Result<std::shared_ptr<Iterator>> iterate(const Value& value) {
  if (const auto* text = value.as<Text>())
    return std::shared_ptr<Iterator>{std::make_shared<Characters>(*text)};
  if (const auto* generator = value.as<Generator>())
    return generator->iterator;
  if (auto counted = go_through(value, false))
    return counted;
  return wrong(fmt::format("goes through {}, which holds no values", kind_of(value)));
}

bool can_iterate(const Value& value) {
  return value.is<Text>() || value.is<Generator>() || value.items() != nullptr || value.is<Dict>() || value.is<View>()
         || value.is<Range>() || value.is<Undefined>();
}

Result<std::shared_ptr<Iterator>> iterate_reversed(const Value& value) {
  if (const auto* text = value.as<Text>())
    return std::shared_ptr<Iterator>{std::make_shared<ReversedCharacters>(*text)};
  if (auto counted = go_through(value, true))
    return counted;
  return wrong(fmt::format("goes through {} from its end", kind_of(value)));
}

Result<std::vector<Value>> all_of(Budget& budget, const Value& value) {
  GPUACTORS_LET(iterator, iterate(value));
  std::vector<Value> values;
  Value one;
  for (;;) {
    GPUACTORS_LET(has_one, iterator->next(budget, one));
    if (!has_one)
      return values;
    GPUACTORS_TRY(budget.take(sizeof(Value)));
    values.push_back(std::move(one));
  }
}

} // namespace llm::chat
