// The broker's table of actors: what each of its indices finds is what a look at all records finds.
#include <gpuactors/broker/core/actor_table.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <string>

using namespace gpuactors;

namespace {

ActorRecord record_of(std::uint64_t id, const std::string& name = {}, std::uint64_t client_request = 0) {
  ActorRecord record;
  record.id = ActorId{id};
  record.spec.set_name(name);
  record.client = 7;
  record.client_request = client_request != 0 ? client_request : id;
  record.state = ActorState::pausing;
  return record;
}

v1::Lease lease_of(std::uint64_t id) {
  v1::Lease lease;
  lease.set_id(id);
  return lease;
}

Lease next_of(std::uint64_t id) {
  Lease lease;
  lease.id = LeaseId{id};
  return lease;
}

/// The record for which `is_wanted`, by a look at all of them; null if there is none.
template <class Predicate>
const ActorRecord* scan(const ActorTable& table, Predicate is_wanted) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& item) { return is_wanted(item.second); });
  return found == table.end() ? nullptr : &found->second;
}

void check_indices(const ActorTable& table, std::uint64_t last) {
  for (std::uint64_t n = 1; n <= last; ++n) {
    CHECK(table.waiting_with(RequestId{n}) == scan(table, [&](const ActorRecord& record) {
            return record.state == ActorState::waiting && record.waiting_for == RequestId{n};
          }));
    CHECK(table.holder_of(LeaseId{n})
          == scan(table, [&](const ActorRecord& record) { return record.lease && record.lease->id() == n; }));
    CHECK(table.moving_to(LeaseId{n})
          == scan(table, [&](const ActorRecord& record) { return record.next && record.next->id == LeaseId{n}; }));
    const auto name = "actor " + std::to_string(n);
    CHECK(table.find(FullName{{}, name})
          == scan(table, [&](const ActorRecord& record) { return record.spec.name() == name; }));
    CHECK(table.spawned_for({7, n})
          == scan(table, [&](const ActorRecord& record) { return record.client_request == n; }));
  }
}

/// One step of an actor's life, whichever fits its state. `number` is of a request or a lease that nobody had yet.
void step(ActorTable& table, ActorRecord& record, std::uint64_t number) {
  if (record.state == ActorState::waiting) {
    table.stop_waiting(record);
    record.state = ActorState::alive;
    table.hold(record, lease_of(number));
  } else if (record.next) {
    table.let_go(record);
    const auto next = table.take_next(record);
    table.hold(record, lease_of(next->id.value()));
  } else if (record.lease && number % 2 == 0) {
    table.reserve(record, next_of(number));
  } else {
    table.let_go(record);
    table.wait(record, RequestId{number});
  }
}

} // namespace

TEST_CASE("an actor is found by its name, its number, and the request for it", "[broker][actors]") {
  ActorTable table;
  auto& record = table.add(record_of(1, "trainer", 11));
  CHECK(table.find(ActorId{1}) == &record);
  CHECK(table.find(FullName{"", "trainer"}) == &record);
  CHECK(table.find(FullName{"other", "trainer"}) == nullptr);
  CHECK(table.spawned_for({7, 11}) == &record);
  CHECK(table.spawned_for({8, 11}) == nullptr);
}

TEST_CASE("an actor without a name is not found by no name", "[broker][actors]") {
  ActorTable table;
  table.add(record_of(1));
  CHECK(table.find(FullName{}) == nullptr);
  CHECK(table.names_in("", 10).empty());
}

TEST_CASE("names of one name space are listed in order, and no more than were asked for", "[broker][actors]") {
  ActorTable table;
  table.add(record_of(1, "c"));
  table.add(record_of(2, "a"));
  table.add(record_of(3, "b"));
  auto other = record_of(4, "d");
  other.spec.set_name_space("other");
  table.add(std::move(other));
  CHECK(table.names_in("", 10) == std::vector<std::string>{"a", "b", "c"});
  CHECK(table.names_in("", 2) == std::vector<std::string>{"a", "b"});
  CHECK(table.names_in("other", 10) == std::vector<std::string>{"d"});
}

TEST_CASE("removing the earlier of two actors for one request leaves the later one in its place", "[broker][actors]") {
  ActorTable table;
  table.add(record_of(1, "trainer", 11));
  auto& later = table.add(record_of(2, "trainer", 11));
  const auto removed = table.remove(ActorId{1});
  REQUIRE_FALSE(removed.empty());
  CHECK(table.spawned_for({7, 11}) == &later);
  CHECK(table.find(FullName{"", "trainer"}) == &later);
}

TEST_CASE("a removed actor keeps what it has, and is found nowhere", "[broker][actors]") {
  ActorTable table;
  auto& record = table.add(record_of(1, "trainer"));
  table.hold(record, lease_of(5));
  table.reserve(record, next_of(6));
  auto removed = table.remove(ActorId{1});
  CHECK(table.find(ActorId{1}) == nullptr);
  CHECK(table.holder_of(LeaseId{5}) == nullptr);
  CHECK(table.moving_to(LeaseId{6}) == nullptr);
  CHECK(table.find(FullName{"", "trainer"}) == nullptr);
  // Who gives the reserved lease back asks the table for it.
  const auto next = table.take_next(removed.mapped());
  REQUIRE(next);
  CHECK(next->id == LeaseId{6});
  CHECK(table.remove(ActorId{1}).empty());
}

TEST_CASE("whatever becomes of actors, each index finds what a look at all records finds", "[broker][actors]") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    ActorTable table;
    std::vector<ActorId> ids;
    std::uint64_t last = 0;
    for (int turn = 0; turn < 120; ++turn) {
      ++last;
      const auto choice = random() % 10;
      if (ids.empty() || choice < 2) {
        ids.push_back(table.add(record_of(last, "actor " + std::to_string(last))).id);
      } else if (choice == 2) {
        const auto place = ids.begin() + static_cast<std::ptrdiff_t>(random() % ids.size());
        CHECK_FALSE(table.remove(*place).empty());
        ids.erase(place);
      } else {
        step(table, *table.find(ids[random() % ids.size()]), last);
      }
    }
    check_indices(table, last);
    CHECK(static_cast<std::size_t>(std::distance(table.begin(), table.end())) == ids.size());
  }
}
