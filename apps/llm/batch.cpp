// Planning the steps of texts that run together.
#include <apps/llm/batch.hpp>

#include <algorithm>
#include <cassert>
#include <utility>

namespace llm {

Batch::Batch(const Room& room) : room_(room), pages_(room.pages, room.shares_pages) {
  for (auto slot = room.slots; slot-- > 0;)
    free_slots_.push_back(static_cast<std::int32_t>(slot));
}

void Batch::add(Text text) {
  assert(can_run(text.most));
  waiting_.push_back(std::move(text));
}

void Batch::remove(TextId id) {
  std::erase_if(waiting_, [id](const Text& text) { return text.id == id; });
  const auto found = std::find_if(running_.begin(), running_.end(), [id](const Text& text) { return text.id == id; });
  if (found != running_.end())
    end(static_cast<std::size_t>(found - running_.begin()));
}

void Batch::end(std::size_t index) {
  auto& text = running_[index];
  pages_.give_back(text.cache);
  free_slots_.push_back(text.slot);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Batch::let_begin(const std::function<void(const Text&)>& begins) {
  while (!waiting_.empty() && !free_slots_.empty()) {
    // Who is first waits until it fits: smaller ones that overtake it could keep it waiting for ever.
    auto pages = pages_.take(waiting_.front().tokens, waiting_.front().most);
    if (!pages)
      return;
    auto text = std::move(waiting_.front());
    waiting_.pop_front();
    text.cache = std::move(*pages);
    text.seen = text.cache.shared * page_tokens;
    text.slot = free_slots_.back();
    free_slots_.pop_back();
    begins(text);
    running_.push_back(std::move(text));
  }
}

Step Batch::plan(const std::function<bool(TextId)>& goes_on, const std::function<void(const Text&)>& begins) {
  let_begin(begins);
  Step step;
  wanted_.clear();
  progress_.clear();
  std::vector<std::size_t> to_read;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const auto& text = running_[i];
    if (!goes_on(text.id))
      continue;
    if (text.seen == 0 || text.seen + 1 < static_cast<std::int64_t>(text.tokens.size()))
      to_read.push_back(i);
    else
      add_rows(step, i, 1);
  }
  add_beginnings(step, std::move(to_read));
  return step;
}

void Batch::add_beginnings(Step& step, std::vector<std::size_t> indices) {
  const auto unread = [this](std::size_t index) {
    return static_cast<std::int64_t>(running_[index].tokens.size()) - running_[index].seen;
  };
  // The shortest first: what they leave of their parts is the others'.
  std::stable_sort(indices.begin(), indices.end(), [&](auto a, auto b) { return unread(a) < unread(b); });
  auto left = room_.rows - static_cast<std::int64_t>(step.rows.size());
  auto texts = static_cast<std::int64_t>(indices.size());
  for (const auto index : indices) {
    const auto part = (left + texts - 1) / texts;
    --texts;
    const auto count = std::min(part, unread(index));
    if (count == 0)
      return;
    add_rows(step, index, count);
    left -= count;
  }
}

void Batch::add_rows(Step& step, std::size_t index, std::int64_t count) {
  const auto& text = running_[index];
  for (auto position = text.seen; position < text.seen + count; ++position)
    step.rows.push_back(
        {text.tokens[static_cast<std::size_t>(position)], static_cast<std::int32_t>(position), text.slot});
  progress_.emplace_back(text.id, text.seen + count);
  if (text.seen + count < static_cast<std::int64_t>(text.tokens.size()))
    return;
  auto choice = text.choice;
  choice.turn = static_cast<std::uint32_t>(text.tokens.size());
  step.wanted.push_back({static_cast<std::int32_t>(step.rows.size()) - 1, choice});
  wanted_.push_back(text.id);
}

std::vector<Chosen> Batch::take(const std::vector<std::int32_t>& chosen) {
  const auto find = [this](TextId id) {
    return std::find_if(running_.begin(), running_.end(), [id](const Text& text) { return text.id == id; });
  };
  // A text that was removed since the plan is not there any more.
  for (const auto& [id, seen] : progress_)
    if (const auto text = find(id); text != running_.end()) {
      text->seen = seen;
      pages_.share(text->cache, text->tokens, seen);
    }
  std::vector<Chosen> result;
  for (std::size_t i = 0; i < std::min(wanted_.size(), chosen.size()); ++i) {
    const auto text = find(wanted_[i]);
    if (text == running_.end())
      continue;
    text->tokens.push_back(chosen[i]);
    const bool is_last = static_cast<std::int64_t>(text->tokens.size()) >= text->most || chosen[i] == no_token;
    result.push_back({text->id, chosen[i], is_last});
    if (is_last)
      end(static_cast<std::size_t>(text - running_.begin()));
  }
  wanted_.clear();
  progress_.clear();
  return result;
}

} // namespace llm
