// What errors say of actors in worker processes, to whoever has many of them.
#include "fixture.hpp"

#include <support/catch.hpp>

#include <string>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

TEST_CASE("an error says which actor it is about, and where that lived", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:2x64MiB");
  const auto named = must(cluster.spawn("counter", number(0), {.gpus = 0.5, .name = "trainer"}));
  const auto other = must(cluster.spawn("counter", number(0), {.gpus = 1}));
  CHECK(fails(named.call<Number>("fall", text("bad_alloc")).get(20s).error(), Errc::task_failed,
              "fall of actor trainer (counter) on node n0, device 0 threw an exception: "));
  const auto lost = named.call<Number>("fall", text("kill")).get(20s);
  CHECK(code_of(lost) == Errc::worker_died);
  CHECK(lost.error().message().starts_with("actor trainer (counter) on node n0, device 0: the process "));
  const auto also_lost = other.call<Number>("fall", text("kill")).get(20s);
  CHECK(code_of(also_lost) == Errc::worker_died);
  CHECK(also_lost.error().message().starts_with("actor " + std::to_string(other.id().value())
                                                + " (counter) on node n0, device 1: "));
}

TEST_CASE("the end of an actor quotes its own last line, and not that of another one in its process", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto quiet = must(cluster.spawn("counter", number(0), {.gpus = 0.25}));
  auto loud = must(cluster.spawn("counter", number(0), {.gpus = 0.25}));
  auto louder = must(cluster.spawn("counter", number(0), {.gpus = 0.25}));
  REQUIRE(pid_of(quiet) == pid_of(louder));
  auto end_of_quiet = quiet.when_ended();
  auto end_of_loud = loud.when_ended();
  auto end_of_louder = louder.when_ended();
  must(loud.call<Number>("say", text("all is well")).get(20s));
  must(louder.call<Number>("say", text("no room any more")).get(20s));
  CHECK_FALSE(louder.call<Number>("fall", text("kill")).get(20s).has_value());
  CHECK(must(end_of_quiet.get(30s)).reason.message().find("last line") == std::string::npos);
  CHECK(says(must(end_of_loud.get(30s)).reason, "; its last line was \"all is well\""));
  CHECK(says(must(end_of_louder.get(30s)).reason, "; its last line was \"no room any more\""));
}

TEST_CASE("an actor in a worker process that waits for a call of itself is told so", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(5), {.name = "lonely"}));
  const auto refused = actor.call<Number>("add_at", text("lonely"), Duration::max()).get(20s);
  CHECK(code_of(refused) == Errc::invalid_argument);
  CHECK(says(refused, "actor lonely (counter) waits for its own method add, "));
  CHECK(must(actor.call<Number>("add", number(1)).get(20s)).value() == 6);
}
