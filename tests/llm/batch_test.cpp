// The plans of texts that run together: order, room, parts of long beginnings, and that nothing is lost.
#include <apps/llm/batch.hpp>
#include <support/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <vector>

using namespace llm;

namespace {

Text text(TextId id, std::int64_t given, std::int64_t most) {
  Text result;
  result.id = id;
  for (std::int64_t i = 0; i < given; ++i)
    result.tokens.push_back(static_cast<std::int32_t>(100 * id) + static_cast<std::int32_t>(i));
  result.most = most;
  return result;
}

bool always(TextId) {
  return true;
}

void nothing(const Text&) {
  // nop
}

std::vector<std::int32_t> rows_of(const Step& step, std::int32_t slot) {
  std::vector<std::int32_t> tokens;
  for (const auto& row : step.rows)
    if (row.slot == slot)
      tokens.push_back(row.token);
  return tokens;
}

} // namespace

TEST_CASE("a beginning is read in parts that fit, and its first token is chosen after the last of them") {
  Batch batch{{.slots = 2, .rows = 4, .positions = 64, .pages = 8}};
  batch.add(text(1, 10, 12));
  auto step = batch.plan(always, nothing);
  CHECK(rows_of(step, 0) == std::vector<std::int32_t>{100, 101, 102, 103});
  CHECK(step.wanted.empty());
  CHECK(batch.take({}).empty());
  step = batch.plan(always, nothing);
  CHECK(step.rows[0].position == 4);
  batch.take({});
  step = batch.plan(always, nothing);
  CHECK(rows_of(step, 0) == std::vector<std::int32_t>{108, 109});
  REQUIRE(step.wanted.size() == 1);
  CHECK(step.wanted[0].row == 1);
  CHECK(step.wanted[0].choice.turn == 10);
  auto chosen = batch.take({7});
  REQUIRE(chosen.size() == 1);
  CHECK((chosen[0].text == 1 && chosen[0].token == 7 && !chosen[0].is_last));
  step = batch.plan(always, nothing);
  CHECK(rows_of(step, 0) == std::vector<std::int32_t>{7});
  CHECK(step.rows[0].position == 10);
  CHECK(batch.take({8})[0].is_last);
  CHECK(batch.empty());
}

TEST_CASE("texts that are written come before beginnings, which share what is left") {
  Batch batch{{.slots = 3, .rows = 5, .positions = 64, .pages = 12}};
  batch.add(text(1, 1, 10));
  batch.take({});
  (void)batch.plan(always, nothing);
  batch.take({5});
  batch.add(text(2, 3, 10));
  batch.add(text(3, 4, 10));
  const auto step = batch.plan(always, nothing);
  CHECK(rows_of(step, 0) == std::vector<std::int32_t>{5});
  CHECK(rows_of(step, 1) == std::vector<std::int32_t>{200, 201});
  CHECK(rows_of(step, 2) == std::vector<std::int32_t>{300, 301});
  CHECK(step.wanted.size() == 1);
}

TEST_CASE("a short beginning does not wait for long ones, which have what it leaves") {
  Batch batch{{.slots = 3, .rows = 9, .positions = 64, .pages = 12}};
  batch.add(text(1, 30, 40));
  batch.add(text(2, 30, 40));
  batch.add(text(3, 2, 10));
  const auto step = batch.plan(always, nothing);
  CHECK(rows_of(step, 0).size() == 4);
  CHECK(rows_of(step, 1).size() == 3);
  CHECK(rows_of(step, 2) == std::vector<std::int32_t>{300, 301});
  REQUIRE(step.wanted.size() == 1);
  CHECK(step.rows[static_cast<std::size_t>(step.wanted[0].row)].slot == 2);
}

TEST_CASE("a text waits until all that it may become has room, and none overtakes it") {
  Batch batch{{.slots = 4, .rows = 8, .positions = 64, .pages = 4}};
  CHECK(batch.can_run(64));
  CHECK_FALSE(batch.can_run(65));
  batch.add(text(1, 1, 33)); // 3 pages
  batch.add(text(2, 1, 32)); // 2 pages
  batch.add(text(3, 1, 2));  // 1 page, which there is
  std::vector<TextId> begun;
  (void)batch.plan(always, [&](const Text& one) { begun.push_back(one.id); });
  CHECK(begun == std::vector<TextId>{1});
  batch.remove(1);
  (void)batch.plan(always, [&](const Text& one) {
    begun.push_back(one.id);
    CHECK(static_cast<std::int64_t>(one.cache.pages.size()) == pages_for(one.most));
  });
  CHECK(begun == std::vector<TextId>{1, 2, 3});
}

TEST_CASE("it is full when one more text would wait for a slot, or for pages behind another one") {
  Batch batch{{.slots = 2, .rows = 8, .positions = 64, .pages = 4}};
  CHECK_FALSE(batch.is_full());
  batch.add(text(1, 1, 33)); // 3 of 4 pages
  (void)batch.plan(always, nothing);
  CHECK_FALSE(batch.is_full());
  CHECK(batch.free_pages() == 1);
  batch.add(text(2, 1, 32)); // 2 pages
  (void)batch.plan(always, nothing);
  CHECK(batch.is_full());
  batch.remove(2);
  CHECK_FALSE(batch.is_full());
  batch.add(text(3, 1, 2));
  (void)batch.plan(always, nothing);
  CHECK(batch.is_full());
}

TEST_CASE("a text that stands still keeps its place and is not in the step; one that is removed is nowhere") {
  Batch batch{{.slots = 2, .rows = 8, .positions = 64, .pages = 8}};
  batch.add(text(1, 1, 10));
  batch.add(text(2, 1, 10));
  batch.add(text(3, 1, 10));
  auto step = batch.plan([](TextId id) { return id != 1; }, nothing);
  REQUIRE(step.rows.size() == 1);
  CHECK(step.rows[0].token == 200);
  // It goes while the step runs.
  batch.remove(2);
  CHECK(batch.take({9}).empty());
  step = batch.plan(always, nothing);
  CHECK(step.rows.size() == 2);
  CHECK((batch.running() == 2 && batch.waiting() == 0));
  CHECK(batch.plan([](TextId) { return false; }, nothing).rows.empty());
}

TEST_CASE("a text for which there is no token ends there") {
  Batch batch{{.slots = 2, .rows = 8, .positions = 64, .pages = 8}};
  batch.add(text(1, 2, 10));
  batch.add(text(2, 2, 10));
  (void)batch.plan(always, nothing);
  const auto chosen = batch.take({no_token, 4});
  REQUIRE(chosen.size() == 2);
  CHECK((chosen[0].is_last && !chosen[1].is_last));
  CHECK(batch.running() == 1);
}

namespace {

/// A text of `given` tokens that begins with those of another.
Text text_like(TextId id, const Text& other, std::size_t same, std::int64_t given, std::int64_t most) {
  auto result = text(id, given, most);
  std::copy_n(other.tokens.begin(), same, result.tokens.begin());
  return result;
}

/// Runs steps until all texts have ended.
void finish(Batch& batch) {
  for (int round = 0; !batch.empty() && round < 10'000; ++round) {
    const auto step = batch.plan(always, nothing);
    batch.take(std::vector<std::int32_t>(step.wanted.size(), 1));
  }
  REQUIRE(batch.empty());
}

/// Adds a text, and returns it as it begins.
Text begin(Batch& batch, const Text& one) {
  Text begun;
  batch.add(one);
  (void)batch.plan(always, [&](const Text& other) { begun = other; });
  REQUIRE(begun.id == one.id);
  return begun;
}

} // namespace

TEST_CASE("a text that begins as another one does has its full pages, also while that one runs") {
  const auto first = text(1, 40, 60);
  Batch batch{{.slots = 3, .rows = 64, .positions = 64, .pages = 12}};
  batch.add(first);
  (void)batch.plan(always, nothing);
  batch.take({5});
  const auto second = begin(batch, text_like(2, first, 35, 50, 60));
  CHECK(second.seen == 32);
  CHECK(batch.free_pages() == 12 - 4 - 2);
  finish(batch);
  CHECK(batch.free_pages() == 12);
  // After their ends, too; and none of a text that differs in its first token.
  CHECK(begin(batch, text_like(3, first, 17, 20, 30)).seen == 16);
  CHECK(begin(batch, text(4, 40, 60)).seen == 0);
}

TEST_CASE("a text's last token is computed, whatever is known of it") {
  const auto first = text(1, 33, 40);
  Batch batch{{.slots = 1, .rows = 64, .positions = 64, .pages = 12}};
  batch.add(first);
  finish(batch);
  CHECK(begin(batch, text_like(2, first, 32, 32, 40)).seen == 16);
  batch.remove(2);
  const auto step = [&] {
    batch.add(text_like(3, first, 33, 33, 40));
    return batch.plan(always, nothing);
  }();
  REQUIRE(step.rows.size() == 1);
  CHECK((step.rows[0].position == 32 && step.wanted.size() == 1));
}

TEST_CASE("what was written is known to a text that goes on behind it") {
  Batch batch{{.slots = 1, .rows = 64, .positions = 96, .pages = 12}};
  const auto first = text(1, 20, 50);
  batch.add(first);
  finish(batch); // 30 tokens "1" behind it, of which the last was never computed
  auto next = text_like(2, first, 20, 60, 70);
  std::fill(next.tokens.begin() + 20, next.tokens.begin() + 50, 1);
  CHECK(begin(batch, next).seen == 48);
}

TEST_CASE("where room is needed, what was let go longest ago is forgotten, from its end on") {
  Batch batch{{.slots = 2, .rows = 64, .positions = 64, .pages = 6}};
  const auto first = text(1, 33, 34);
  const auto second = text(2, 33, 34);
  for (const auto& one : {first, second}) {
    batch.add(one);
    finish(batch);
  }
  CHECK(batch.free_pages() == 6); // of which 4 are kept, 2 of each
  const auto third = text(3, 33, 34);
  batch.add(third);
  finish(batch); // needs 3: 2 are free, and the second page of the first one
  CHECK(begin(batch, text_like(4, second, 33, 33, 34)).seen == 32);
  batch.remove(4);
  CHECK(begin(batch, text_like(5, first, 33, 33, 34)).seen == 16);
}

TEST_CASE("a text that finds too few pages changes nothing, and what it would share stays") {
  Pages pages{4};
  const auto one = text(1, 33, 40);
  auto first = *pages.take(one.tokens, 40);
  pages.share(first, one.tokens, 33);
  pages.give_back(first);
  CHECK(pages.free() == 4);
  auto other = *pages.take(text(2, 20, 32).tokens, 32);
  // It shares two, and there is no third: the others are taken.
  CHECK_FALSE(pages.take(one.tokens, 33));
  CHECK_FALSE(pages.take(text(3, 40, 48).tokens, 48));
  CHECK(pages.free() == 2);
  pages.give_back(other);
  CHECK(pages.take(one.tokens, 33)->shared == 2);
}

TEST_CASE("texts that begin alike and at once each have their own pages, and none is lost") {
  const auto first = text(1, 40, 50);
  Batch batch{{.slots = 3, .rows = 200, .positions = 64, .pages = 12}};
  for (TextId id = 1; id <= 3; ++id)
    batch.add(text_like(id, first, 40, 40, 50));
  const auto step = batch.plan(always, nothing);
  CHECK(step.rows.size() == 120);
  finish(batch);
  CHECK(batch.free_pages() == 12);
  CHECK(begin(batch, text_like(4, first, 40, 40, 50)).seen == 32);
}

TEST_CASE("texts that are to share nothing do not") {
  const auto first = text(1, 40, 50);
  Batch batch{{.slots = 1, .rows = 64, .positions = 64, .pages = 12, .shares_pages = false}};
  batch.add(first);
  finish(batch);
  CHECK(begin(batch, text_like(2, first, 40, 40, 50)).seen == 0);
}

namespace {

/// What the cache has: of each place, a hash of the tokens up to it, on which its key and value depend.
class Memory {
public:
  /// The step reads all positions before its rows, and writes theirs.
  void run(const Step& step, const std::map<std::int32_t, Text>& by_slot) {
    for (const auto& row : step.rows) {
      const auto& one = by_slot.at(row.slot);
      const auto position = static_cast<std::size_t>(row.position);
      REQUIRE(one.tokens.at(position) == row.token);
      std::uint64_t hash = 0;
      bool is_right = true;
      for (std::size_t i = 0; i <= position; ++i) {
        hash = (hash + static_cast<std::uint64_t>(one.tokens[i])) * 0x9E3779B97F4A7C15U;
        auto& place =
            places_[one.cache.pages.at(i / page_tokens) * page_tokens + static_cast<std::int32_t>(i % page_tokens)];
        if (i == position)
          place = hash;
        is_right = is_right && place == hash;
      }
      REQUIRE(is_right);
    }
  }

private:
  std::map<std::int32_t, std::uint64_t> places_;
};

} // namespace

TEST_CASE("over long random histories every text reads what it would have computed, and gets all of its tokens") {
  std::int64_t shared = 0;
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    std::mt19937 random{seed};
    const auto up_to = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
    const Room room{.slots = 1 + up_to(6), .rows = 8 + up_to(30), .positions = 100, .pages = 7 + up_to(20)};
    Batch batch{room};
    Memory memory;
    std::map<TextId, Text> alive;
    std::map<std::int32_t, Text> by_slot;
    std::vector<Text> former;
    TextId last = 0;
    const auto drop = [&](TextId id) {
      former.push_back(alive.at(id));
      alive.erase(id);
      std::erase_if(by_slot, [id](const auto& entry) { return entry.second.id == id; });
    };
    const auto step_once = [&](const std::function<bool(TextId)>& goes_on) {
      const auto step = batch.plan(goes_on, [&](const Text& one) {
        shared += one.seen;
        REQUIRE(one.seen < static_cast<std::int64_t>(one.tokens.size()));
        for (const auto page : one.cache.pages)
          REQUIRE((page >= 1 && page <= room.pages));
        by_slot[one.slot] = one;
      });
      REQUIRE(static_cast<std::int64_t>(step.rows.size()) <= room.rows);
      REQUIRE(static_cast<std::int64_t>(by_slot.size()) <= room.slots);
      memory.run(step, by_slot);
      // Few tokens, so that texts go on alike.
      for (const auto& one :
           batch.take(std::vector<std::int32_t>(step.wanted.size(), static_cast<std::int32_t>(seed)))) {
        auto& whole = alive.at(one.text);
        whole.tokens.push_back(one.token);
        for (auto& [slot, running] : by_slot)
          if (running.id == one.text)
            running.tokens.push_back(one.token);
        REQUIRE(one.is_last == (static_cast<std::int64_t>(whole.tokens.size()) == whole.most));
        if (one.is_last)
          drop(one.text);
      }
    };
    for (int round = 0; round < 400; ++round) {
      if (random() % 3 == 0) {
        const auto given = 1 + up_to(60);
        auto one = text(++last, given, given + 1 + up_to(40));
        if (!former.empty() && random() % 2 == 0) {
          const auto& other = former[random() % former.size()].tokens;
          std::copy_n(other.begin(), std::min(other.size(), one.tokens.size()), one.tokens.begin());
        }
        REQUIRE(batch.can_run(one.most));
        alive[last] = one;
        batch.add(std::move(one));
      }
      if (random() % 20 == 0 && last > 0)
        if (const auto id = 1 + random() % last; alive.contains(id)) {
          batch.remove(id);
          drop(id);
        }
      step_once([&](TextId) { return random() % 8 != 0; });
    }
    for (int round = 0; !batch.empty() && round < 10'000; ++round)
      step_once(always);
    CHECK(alive.empty());
    CHECK(batch.free_pages() == room.pages);
  }
  CHECK(shared > 1'000);
}
