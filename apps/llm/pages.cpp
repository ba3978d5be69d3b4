// Taking, sharing and forgetting pages.
#include <apps/llm/pages.hpp>

#include <algorithm>
#include <cassert>
#include <numeric>

namespace llm {

Pages::Pages(std::int64_t count, bool shares)
  : shares_(shares), pages_(static_cast<std::size_t>(count) + 1), free_(static_cast<std::size_t>(count)) {
  // The lowest is taken first.
  std::iota(free_.rbegin(), free_.rend(), 1);
}

Pages::Tokens Pages::tokens_of(std::span<const std::int32_t> tokens, std::int64_t index) {
  Tokens result{};
  std::copy_n(tokens.begin() + index * page_tokens, page_tokens, result.begin());
  return result;
}

std::vector<std::int32_t> Pages::find(std::span<const std::int32_t> tokens) const {
  std::vector<std::int32_t> found;
  if (!shares_)
    return found;
  const auto most = (static_cast<std::int64_t>(tokens.size()) - 1) / page_tokens;
  for (std::int64_t i = 0; i < most; ++i) {
    const auto next = tree_.find({found.empty() ? 0 : found.back(), tokens_of(tokens, i)});
    if (next == tree_.end())
      break;
    found.push_back(next->second);
  }
  return found;
}

std::optional<TextPages> Pages::take(std::span<const std::int32_t> tokens, std::int64_t most) {
  assert(!tokens.empty() && static_cast<std::int64_t>(tokens.size()) <= most);
  // Not even if it shared all that it may: one that waits asks again at each step.
  const auto most_shared = shares_ ? (static_cast<std::int64_t>(tokens.size()) - 1) / page_tokens : 0;
  if (pages_for(most) - most_shared > free())
    return {};
  TextPages text;
  text.can_share = shares_;
  text.pages = find(tokens);
  text.shared = static_cast<std::int64_t>(text.pages.size());
  const auto kept =
      std::count_if(text.pages.begin(), text.pages.end(), [this](auto id) { return page(id).texts == 0; });
  const auto wanted = pages_for(most) - text.shared;
  if (wanted > free() - kept)
    return {};
  // Before others are forgotten: these must stay.
  for (const auto id : text.pages)
    hold(id);
  for (std::int64_t i = 0; i < wanted; ++i) {
    if (free_.empty())
      forget_oldest();
    text.pages.push_back(free_.back());
    free_.pop_back();
  }
  return text;
}

void Pages::share(TextPages& text, std::span<const std::int32_t> tokens, std::int64_t computed) {
  while (text.can_share && (text.shared + 1) * page_tokens <= computed) {
    const auto index = static_cast<std::size_t>(text.shared);
    const auto id = text.pages[index];
    const auto before = index == 0 ? 0 : text.pages[index - 1];
    const Key key{before, tokens_of(tokens, text.shared)};
    // What another text has brought meanwhile stays; pages of this one would lie behind a page that it does not have.
    text.can_share = tree_.emplace(key, id).second;
    if (!text.can_share)
      return;
    page(id).key = key;
    page(id).texts = 1;
    page(before).behind += 1;
    text.shared += 1;
  }
}

void Pages::give_back(const TextPages& text) {
  const auto shared = text.pages.begin() + text.shared;
  free_.insert(free_.end(), text.pages.rbegin(), std::make_reverse_iterator(shared));
  std::for_each(text.pages.begin(), shared, [this](auto id) { let_go(id); });
}

void Pages::hold(std::int32_t id) {
  auto& held = page(id);
  if (held.texts++ > 0)
    return;
  kept_ -= 1;
  leaves_.erase({held.let_go, id});
}

void Pages::let_go(std::int32_t id) {
  auto& left = page(id);
  if (--left.texts > 0)
    return;
  kept_ += 1;
  left.let_go = ++time_;
  if (left.behind == 0)
    leaves_.emplace(left.let_go, id);
}

void Pages::forget_oldest() {
  // There is one: who has a page has all before it, so one that is kept has only kept ones behind it.
  const auto id = leaves_.begin()->second;
  leaves_.erase(leaves_.begin());
  kept_ -= 1;
  const auto before = page(id).key->first;
  tree_.erase(*page(id).key);
  page(id).key.reset();
  free_.push_back(id);
  if (auto& last = page(before); --last.behind == 0 && before != 0 && last.texts == 0)
    leaves_.emplace(last.let_go, before);
}

} // namespace llm
