#include <gpuactors/agent/log_sources.hpp>

#include <support/catch.hpp>

using namespace gpuactors;
using Kind = LogSource::Kind;

namespace {

LogTime at(int second) {
  return LogTime{} + std::chrono::seconds{second};
}

LogLine line(std::string source, int second) {
  return {at(second), "n0", std::move(source), OutputStream::out, "text"};
}

} // namespace

TEST_CASE("a source is written in words and read back") {
  for (const LogSource& source : {LogSource{Kind::actor, 12, "trainer"}, LogSource{Kind::actor, 12, "space/my trainer"},
                                  LogSource{Kind::task, 0, "matmul"}, LogSource{Kind::task, 0, "actor 3 x"},
                                  LogSource{Kind::worker, 3, "device 0"}, LogSource{Kind::other, 0, "log"}})
    CHECK(parse_log_source(to_string(source)) == source);
  CHECK(to_string(LogSource{Kind::actor, 12, "two\tlines\n"}) == "actor 12 two lines ");
  for (const std::string text : {"actor", "actor ", "actor x", "actor 12", "worker -1 x", ""})
    CHECK(parse_log_source(text) == LogSource{Kind::other, 0, text});
}

TEST_CASE("a mark names a holder of its own worker, and no other") {
  LogSources sources;
  sources.add_worker(1, {Kind::worker, 1, "device 0"});
  sources.add_worker(2, {Kind::task, 0, "alone"});
  sources.add_holder(1, LeaseId{5}, {Kind::actor, 12, "trainer"}, at(0));
  sources.add_holder(2, LeaseId{6}, {Kind::task, 0, "alone"}, at(0));
  CHECK(sources.source_of(1, LeaseId{5}) == "actor 12 trainer");
  CHECK(sources.source_of(1, LeaseId{6}) == "worker 1 device 0");
  CHECK(sources.source_of(1, LeaseId{}) == "worker 1 device 0");
  CHECK(sources.source_of(2, LeaseId{}) == "task alone");
  CHECK(sources.source_of(3, LeaseId{5}) == "worker 3 process");
}

TEST_CASE("the last lines of a holder that has ended are still its own") {
  LogSources sources;
  sources.add_worker(1, {Kind::worker, 1, "device 0"});
  for (std::uint64_t lease = 1; lease <= limits::log_ended_holders + 1; ++lease) {
    sources.add_holder(1, LeaseId{lease}, {Kind::task, 0, "t"}, at(0));
    sources.remove_holder(1, LeaseId{lease});
  }
  CHECK(sources.source_of(1, LeaseId{1}) == "worker 1 device 0"); // long ago
  CHECK(sources.source_of(1, LeaseId{2}) == "task t");
  sources.remove_worker(1);
  CHECK(sources.source_of(1, LeaseId{2}) == "worker 1 process");
  sources.remove_holder(1, LeaseId{2}); // the worker is gone
}

TEST_CASE("an actor's lines are its own in all its lives, and those of nobody from its workers while it was there") {
  LogSources sources;
  sources.add_holder(1, LeaseId{5}, {Kind::actor, 12, "trainer"}, at(10));
  sources.add_holder(1, LeaseId{6}, {Kind::actor, 13, "other"}, at(20));
  sources.add_holder(2, LeaseId{7}, {Kind::actor, 12, "trainer"}, at(30));
  const ActorId actor{12};
  CHECK(sources.concerns(actor, line("actor 12 trainer", 1)));
  CHECK_FALSE(sources.concerns(actor, line("actor 13 other", 40)));
  CHECK_FALSE(sources.concerns(actor, line("task 12 x", 40)));
  CHECK_FALSE(sources.concerns(actor, line("log", 40)));
  CHECK_FALSE(sources.concerns(actor, line("worker 1 device 0", 9)));
  CHECK(sources.concerns(actor, line("worker 1 device 0", 10)));
  CHECK_FALSE(sources.concerns(ActorId{13}, line("worker 1 device 0", 10)));
  CHECK(sources.concerns(ActorId{13}, line("worker 1 device 0", 20)));
  CHECK_FALSE(sources.concerns(actor, line("worker 2 device 1", 29)));
  CHECK(sources.concerns(actor, line("worker 2 device 1", 30)));
  CHECK_FALSE(sources.concerns(actor, line("worker 3 device 0", 40)));
}

TEST_CASE("stays in workers are forgotten, the oldest first, when there are too many") {
  LogSources sources;
  for (std::uint64_t id = 1; id <= limits::log_stays + 1; ++id)
    sources.add_holder(1, LeaseId{id}, {Kind::actor, id, "a"}, at(0));
  CHECK_FALSE(sources.concerns(ActorId{1}, line("worker 1 device 0", 1)));
  CHECK(sources.concerns(ActorId{2}, line("worker 1 device 0", 1)));
  CHECK(sources.concerns(ActorId{limits::log_stays + 1}, line("worker 1 device 0", 1)));
}
