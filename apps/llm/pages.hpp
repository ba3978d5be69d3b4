// Pages: which parts of the cache of keys and values belong to which text, and which of them texts share that begin
// alike. Pure.
#pragma once

#include <apps/llm/kernels.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace llm {

/// Returns how many pages so many positions take.
[[nodiscard]] constexpr std::int64_t pages_for(std::int64_t positions) {
  return (positions + page_tokens - 1) / page_tokens;
}

/// The pages of a text, in the order of its positions.
struct TextPages {
  std::vector<std::int32_t> pages = {};
  /// How many of them, from the first on, others may read: they are full.
  std::int64_t shared = 0;
  /// Whether more of them can become so; not where another text has brought the same first.
  bool can_share = true;
};

/// Pages 1 to `count`, each free, of texts, or kept. Page 0 belongs to nobody: what is computed for nobody is written
/// there.
///
/// What a page has depends on its tokens and all before them, and never changes once it is full. So full pages are a
/// tree, in which a text that begins finds what others have computed of its beginning (as in Zheng et al., "SGLang:
/// Efficient Execution of Structured Language Model Programs", 2024). When nobody has them any more they are kept,
/// until their room is needed: then the one goes that was let go longest ago, of those behind which there is no other.
class Pages {
public:
  /// @param shares whether texts share pages; else none is kept.
  explicit Pages(std::int64_t count, bool shares = true);

  /// Returns how many pages no text has: a text can have all of them.
  [[nodiscard]] std::int64_t free() const noexcept {
    return static_cast<std::int64_t>(free_.size()) + kept_;
  }

  /// Gives a text of these tokens, of which there is at least one, pages for `most` positions. Those that are `shared`
  /// have what belongs there: never its last token, which is to be computed at least.
  /// @returns nothing, and changes nothing, if there are too few.
  std::optional<TextPages> take(std::span<const std::int32_t> tokens, std::int64_t most);

  /// The first `computed` of a text's tokens are in its pages now: what is full may be shared from now on.
  void share(TextPages& text, std::span<const std::int32_t> tokens, std::int64_t computed);

  void give_back(const TextPages& text);

private:
  using Tokens = std::array<std::int32_t, page_tokens>;
  /// The page before, 0 for none, and what comes next.
  using Key = std::pair<std::int32_t, Tokens>;

  struct Page {
    /// Of a page in the tree.
    std::optional<Key> key;
    /// Texts that have it, and pages in the tree behind it.
    std::int32_t texts = 0;
    std::int32_t behind = 0;
    /// When it was let go.
    std::uint64_t let_go = 0;
  };

  Page& page(std::int32_t id) {
    return pages_[static_cast<std::size_t>(id)];
  }
  static Tokens tokens_of(std::span<const std::int32_t> tokens, std::int64_t index);
  /// The pages in the tree of the beginning of a text.
  [[nodiscard]] std::vector<std::int32_t> find(std::span<const std::int32_t> tokens) const;
  void hold(std::int32_t id);
  void let_go(std::int32_t id);
  /// Makes a kept page free.
  void forget_oldest();

  const bool shares_;
  /// By their ids.
  std::vector<Page> pages_;
  /// The last is taken next.
  std::vector<std::int32_t> free_;
  std::map<Key, std::int32_t> tree_;
  /// Pages of the tree that no text has, and those of them behind which there is none, the oldest first.
  std::int64_t kept_ = 0;
  std::set<std::pair<std::uint64_t, std::int32_t>> leaves_;
  std::uint64_t time_ = 0;
};

} // namespace llm
