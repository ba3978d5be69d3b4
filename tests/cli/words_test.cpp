// Parts of a state in words, and the tables that have them.
#include <gpuactors/base/units.hpp>

#include <apps/gpuactors/actor_argument.hpp>
#include <apps/gpuactors/table.hpp>
#include <apps/gpuactors/words.hpp>
#include <support/catch.hpp>

#include <sstream>
#include <string>

using namespace gpuactors;
using cli::ActorArgument;
using cli::find_ended;
using cli::needs_in_words;
using cli::Table;

namespace {

v1::TypeNeeds needs(double gpus, std::uint64_t memory_bytes, double cpus) {
  v1::TypeNeeds result;
  result.set_gpus(gpus);
  result.set_memory_bytes(memory_bytes);
  result.set_cpus(cpus);
  return result;
}

v1::ActorInfo restarted(int restarts, int forgiven, int moves, int most) {
  v1::ActorInfo actor;
  actor.set_restarts(restarts);
  actor.set_forgiven(forgiven);
  actor.set_moves(moves);
  actor.set_max_restarts(most);
  return actor;
}

void set_names(v1::ActorInfo& actor, std::uint64_t id, const std::string& name, const std::string& name_space) {
  actor.set_id(id);
  actor.set_name(name);
  actor.set_name_space(name_space);
}

void add_living(v1::ClusterState& state, std::uint64_t id, const std::string& name,
                const std::string& name_space = {}) {
  set_names(*state.add_actors(), id, name, name_space);
}

/// Those that come first have ended last, as in an answer of the broker.
void add_ended(v1::ClusterState& state, std::uint64_t id, const std::string& name, const std::string& name_space = {}) {
  set_names(*state.add_ended()->mutable_actor(), id, name, name_space);
}

/// The number of the ended actor that is meant; 0: none is.
std::uint64_t found(const v1::ClusterState& state, const std::string& name, const std::string& name_space = {}) {
  const auto* ended = find_ended(state, ActorArgument{name, name_space});
  return ended != nullptr ? ended->actor().id() : 0;
}

std::string printed(const Table& table) {
  std::ostringstream out;
  table.print(out);
  return out.str();
}

} // namespace

// -- needs -----------------------------------------------------------------------------------------

TEST_CASE("what owns a share or devices needs them, also where its type has no default") {
  CHECK(needs_in_words(needs(0, 0, 0)) == "nothing");
  CHECK(needs_in_words(needs(0, 0, 0), Ownership::any) == "nothing");
  CHECK(needs_in_words(needs(0, 0, 0), Ownership::fraction) == "a share");
  CHECK(needs_in_words(needs(0, 0, 0), Ownership::whole) == "a device");
  CHECK(needs_in_words(needs(0, 0, 0.5), Ownership::fraction) == "a share, cpus 0.5");
}

TEST_CASE("a default is shown in place of what the ownership says") {
  CHECK(needs_in_words(needs(0.25, 0, 0), Ownership::fraction) == "gpus 0.25");
  CHECK(needs_in_words(needs(2, 0, 1), Ownership::whole) == "gpus 2, cpus 1");
  // Memory brings the share that covers it; a whole device is still missing.
  CHECK(needs_in_words(needs(0, 1U << 30U, 0), Ownership::fraction) == "memory 1 GiB");
  CHECK(needs_in_words(needs(0, 1U << 30U, 0), Ownership::whole) == "a device, memory 1 GiB");
}

// -- restarts --------------------------------------------------------------------------------------

TEST_CASE("restarts that do not count are told apart from those that do") {
  CHECK(cli::restarts_in_words(restarted(0, 0, 0, 3)) == "0");
  CHECK(cli::restarts_in_words(restarted(2, 0, 0, 3)) == "2");
  CHECK(cli::restarts_in_words(restarted(4, 3, 2, 3)) == "4 (1 of 3 count, 2 were moves)");
  CHECK(cli::restarts_in_words(restarted(4, 4, 0, 3)) == "4 (0 of 3 count)");
  CHECK(cli::restarts_in_words(restarted(4, 1, 1, -1)) == "4 (3 count, 1 were moves)");
}

TEST_CASE("a move that is forgiven before it is made makes no count negative") {
  CHECK(cli::counted_restarts(restarted(0, 1, 0, 3)) == 0);
  CHECK(cli::restarts_in_words(restarted(0, 1, 0, 3)) == "0");
}

// -- actors that have ended ------------------------------------------------------------------------

TEST_CASE("an actor that has ended is found by its name, in its name space, and by its number") {
  v1::ClusterState state;
  add_ended(state, 7, "c0");
  add_ended(state, 6, "c0", "lab");
  add_ended(state, 5, "");
  CHECK(found(state, "c0") == 7);
  CHECK(found(state, "c0", "lab") == 6);
  CHECK(found(state, "5") == 5);
  CHECK(found(state, "7") == 7);
  CHECK(found(state, "c1") == 0);
  CHECK(found(state, "c0", "other") == 0);
  CHECK(found(state, "") == 0);
}

TEST_CASE("of several that have ended under one name, the last one is meant") {
  v1::ClusterState state;
  add_ended(state, 9, "c0");
  add_ended(state, 3, "c0");
  CHECK(found(state, "c0") == 9);
  CHECK(found(state, "3") == 3);
}

TEST_CASE("who lives is meant before all that have ended") {
  v1::ClusterState state;
  add_living(state, 9, "c0");
  add_living(state, 8, "");
  add_ended(state, 3, "c0");
  CHECK(found(state, "c0") == 0);
  CHECK(found(state, "8") == 0);
  CHECK(found(state, "3") == 3);
}

TEST_CASE("a number is a name where an actor has it as its name") {
  v1::ClusterState state;
  add_living(state, 9, "3");
  add_ended(state, 3, "c0");
  CHECK(found(state, "3") == 0);
  state.clear_actors();
  add_ended(state, 2, "3");
  CHECK(found(state, "3") == 2);
}

// -- tables ----------------------------------------------------------------------------------------

TEST_CASE("columns are as wide as their cells look, whatever bytes these are of") {
  Table table{{"NAME", ">COUNT", "STATE"}};
  table.add({"k\xC3\xB6ln", "1", "ok"});
  table.add({"abcdef", "12", "ok"});
  CHECK(printed(table) == "NAME    COUNT  STATE\nk\xC3\xB6ln        1  ok\nabcdef     12  ok\n");
}

TEST_CASE("what a terminal obeys does not move the columns of a table") {
  Table table{{"NAME", "STATE"}};
  table.add({"a\x1b[2Jb", "ok"});
  table.add({"\x1b[31mred", "ok"});
  table.add({"two\nlines", "ok"});
  CHECK(printed(table) == "NAME         STATE\na\\u001b[2Jb  ok\n\x1b[31mred\x1b[0m          ok\ntwo lines    ok\n");
}
