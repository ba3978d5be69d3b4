// Batch: which texts run, which wait, and what the next step does for them. Pure.
#pragma once

#include <apps/llm/decoder.hpp>
#include <apps/llm/pages.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace llm {

using TextId = std::uint64_t;

/// A text: its beginning, and what was chosen since.
struct Text {
  TextId id = 0;
  std::vector<std::int32_t> tokens;
  /// How long it becomes at most; more than it has now.
  std::int64_t most = 0;
  Choice choice = {};
  /// Tokens whose keys and values are in the cache.
  std::int64_t seen = 0;
  /// While it runs.
  std::int32_t slot = -1;
  TextPages cache = {};
};

/// A token that was chosen for a text.
struct Chosen {
  TextId text;
  std::int32_t token;
  /// Whether the text is as long as it may be, or there was no token for it. Then it is gone.
  bool is_last;
};

/// Continuous batching (Yu et al., "Orca", 2022): texts come and go between any two steps. A text begins when there is
/// a slot and room in the cache for all that it may become, in the order of arrival, so that none that runs has to stop
/// for lack of memory. What others have computed of its beginning is not computed again (pages.hpp). In a step, texts
/// that are written get their next token first; beginnings share what room is left in equal parts, so that a short one
/// does not wait for a long one.
class Batch {
public:
  explicit Batch(const Room& room);

  /// Whether a text that becomes so long can ever run.
  [[nodiscard]] bool can_run(std::int64_t most) const noexcept {
    return most <= room_.positions && pages_for(most) <= room_.pages;
  }

  /// Adds a text that can run, with at least one token, behind those that wait.
  void add(Text text);

  /// Takes a text out, if it is there.
  void remove(TextId id);

  [[nodiscard]] bool empty() const noexcept {
    return running_.empty() && waiting_.empty();
  }

  [[nodiscard]] std::size_t running() const noexcept {
    return running_.size();
  }

  [[nodiscard]] std::size_t waiting() const noexcept {
    return waiting_.size();
  }

  /// Whether one more text would have to wait for others to end.
  [[nodiscard]] bool is_full() const noexcept {
    return free_slots_.empty() || !waiting_.empty();
  }

  [[nodiscard]] std::int64_t free_pages() const noexcept {
    return pages_.free();
  }

  /// Lets texts begin, and returns what the next step does; without rows if there is nothing to do.
  /// @param goes_on whether a text goes on now; others keep their place.
  /// @param begins called for each text that begins, which has slot and pages by then, and has `seen` what it shares.
  Step plan(const std::function<bool(TextId)>& goes_on, const std::function<void(const Text&)>& begins);

  /// Appends what the step that was planned last has chosen.
  std::vector<Chosen> take(const std::vector<std::int32_t>& chosen);

private:
  void let_begin(const std::function<void(const Text&)>& begins);
  void add_beginnings(Step& step, std::vector<std::size_t> indices);
  /// Adds `count` tokens of a text to the step.
  void add_rows(Step& step, std::size_t index, std::int64_t count);
  void end(std::size_t index);

  Room room_;
  Pages pages_;
  std::vector<std::int32_t> free_slots_;
  std::deque<Text> waiting_;
  /// By their arrival.
  std::vector<Text> running_;
  /// The texts whose tokens the last step chooses, and how far each text is behind it.
  std::vector<TextId> wanted_;
  std::vector<std::pair<TextId, std::int64_t>> progress_;
};

} // namespace llm
