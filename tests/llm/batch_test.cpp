// The plans of texts that run together: order, room, parts of long beginnings, and that nothing is lost.
#include <apps/llm/batch.hpp>
#include <support/catch.hpp>

#include <map>
#include <random>
#include <set>

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
    CHECK(static_cast<std::int64_t>(one.pages.size()) == pages_for(one.most));
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

TEST_CASE("over long random histories no page or slot is two texts', and every text gets all of its tokens") {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    std::mt19937 random{seed};
    const auto up_to = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
    const Room room{.slots = 1 + up_to(6), .rows = 8 + up_to(30), .positions = 100, .pages = 7 + up_to(20)};
    Batch batch{room};
    std::map<TextId, Text> alive;
    std::map<TextId, std::int64_t> written;
    std::map<TextId, std::vector<std::int32_t>> pages;
    TextId last = 0;
    const auto drop = [&](TextId id) {
      alive.erase(id);
      pages.erase(id);
    };
    for (int round = 0; round < 400; ++round) {
      if (random() % 3 == 0) {
        const auto given = static_cast<std::int64_t>(1 + random() % 60);
        auto one = text(++last, given, given + 1 + static_cast<std::int64_t>(random() % 40));
        REQUIRE(batch.can_run(one.most));
        alive[last] = one;
        batch.add(std::move(one));
      }
      if (random() % 20 == 0 && last > 0) {
        const auto id = 1 + random() % last;
        batch.remove(id);
        drop(id);
      }
      const auto step =
          batch.plan([&](TextId) { return random() % 8 != 0; }, [&](const Text& one) { pages[one.id] = one.pages; });
      std::set<std::int32_t> taken;
      for (const auto& [id, own] : pages)
        for (const auto page : own)
          REQUIRE((page >= 1 && page <= room.pages && taken.insert(page).second));
      REQUIRE(static_cast<std::int64_t>(step.rows.size()) <= room.rows);
      REQUIRE(static_cast<std::int64_t>(pages.size()) <= room.slots);
      for (const auto& one : batch.take(std::vector<std::int32_t>(step.wanted.size(), 1))) {
        ++written[one.text];
        const auto& whole = alive.at(one.text);
        REQUIRE(one.is_last == (static_cast<std::int64_t>(whole.tokens.size()) + written[one.text] == whole.most));
        if (one.is_last)
          drop(one.text);
      }
    }
    for (int round = 0; !batch.empty() && round < 10'000; ++round) {
      const auto step = batch.plan(always, nothing);
      for (const auto& one : batch.take(std::vector<std::int32_t>(step.wanted.size(), 1)))
        if (one.is_last)
          drop(one.text);
    }
    CHECK(alive.empty());
  }
}
