// Models without a replica: who waits for one, who is told why there is none, and what the repository says.
#include "models_played.hpp"
#include "zero_digits.hpp"

#include <apps/serve/cut_text.hpp>
#include <support/eventually.hpp>

#include <future>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::test::eventually;

namespace {

/// A desk whose requests wait for a replica so long once a start has failed.
ChatDesk desk_with(gpuactors::Duration replica_wait, wire::SequenceMemory memory = wire::SEQUENCE_MEMORY_NONE) {
  return ChatDesk{1, 100, false, memory, replica_wait};
}

const gpuactors::Error no_room{Errc::no_capacity, "no node offers 2 GPUs"};

constexpr auto told_why = "unavailable: model chat, version 1 has no replica: the last start failed: no_capacity: no "
                          "node offers 2 GPUs";

/// A replica that can be made once, as a test says, and then says at length why not.
class OnceDigits : public ZeroDigits {
public:
  OnceDigits(gpuactors::Init init, const wire::ReplicaConfig& config) : ZeroDigits(std::move(init), config) {
    if (made<OnceDigits>()++ > 0)
      throw std::runtime_error{"there was one already" + std::string(10'000, '!')};
  }
};

GPUACTORS_ACTOR("test/once-digits", OnceDigits, wire::ReplicaConfig)
    .method(describe_method, &OnceDigits::describe)
    .method(infer_method, &OnceDigits::infer);

/// A replica that is made when the gate is open.
class HeldStart : public ZeroDigits {
public:
  HeldStart(gpuactors::Init init, const wire::ReplicaConfig& config) : ZeroDigits(std::move(init), config) {
    gate().pass([this] { return stop_requested(); });
  }
};

/// Two can be made, as a test says; the third one waits for the gate, and others cannot.
class ThirdHeld : public ZeroDigits {
public:
  ThirdHeld(gpuactors::Init init, const wire::ReplicaConfig& config) : ZeroDigits(std::move(init), config) {
    const auto number = ++made<ThirdHeld>();
    if (number == 3)
      gate().pass([this] { return stop_requested(); });
    else if (number > 3)
      throw std::runtime_error{"there were three already"};
  }
};

GPUACTORS_ACTOR("test/third-held", ThirdHeld, wire::ReplicaConfig)
    .method(describe_method, &ThirdHeld::describe)
    .method(infer_method, &ThirdHeld::infer);

GPUACTORS_ACTOR("test/held-start", HeldStart, wire::ReplicaConfig)
    .method(describe_method, &HeldStart::describe)
    .method(infer_method, &HeldStart::infer);

/// What the repository says of the one version of a model.
RepositoryEntry entry_of(const ModelTable& table) {
  const auto entries = table.repository();
  REQUIRE(entries.size() == 1);
  return entries.front();
}

} // namespace

TEST_CASE("requests wait for a replica that is being started, and the next one answers them", "[serve]") {
  auto desk = desk_with(0s);
  PlayedGenerator replica;
  PlayedGenerator next;
  desk.add(1, replica);
  CHECK(desk.dispatcher->serves());
  CHECK(desk.dispatcher->why_not().empty());
  desk.dispatcher->lose(1, {Errc::worker_died, "it fell"});
  CHECK_FALSE(desk.dispatcher->serves());
  CHECK(desk.dispatcher->why_not()
        == "it has no replica: another one is being started, since the last one was lost: worker_died: it fell");
  const auto client = desk.ask("a");
  auto coming = client.next();
  CHECK_FALSE(has_come(coming));
  desk.add(2, next);
  next.play(0).item("b");
  CHECK(read(std::move(coming)) == "b");
  CHECK(desk.dispatcher->why_not().empty());
}

TEST_CASE("when no replica can be started, those that wait and those that come are told why", "[serve]") {
  auto desk = desk_with(0s);
  PlayedGenerator replica;
  const auto waits = desk.ask("a");
  auto coming = waits.next();
  CHECK_FALSE(has_come(coming));
  desk.dispatcher->note_failed_start(no_room);
  CHECK(read(std::move(coming)) == told_why);
  const auto comes = desk.ask("b");
  CHECK(read(comes.next()) == told_why);
  CHECK(desk.dispatcher->why_not() == "it has no replica: the last start failed: no_capacity: no node offers 2 GPUs");
  const auto snapshot = desk.dispatcher->snapshot();
  CHECK(snapshot.refused_without_replica == 1);
  CHECK(snapshot.failed_starts == 1);
  CHECK(snapshot.statistics.failures.at("BACKEND") == 2);
  CHECK(snapshot.statistics.pending == 0);
  // Until one serves.
  desk.add(1, replica);
  const auto served = desk.ask("c");
  CHECK(replica.count() == 1);
  replica.play(0).item("d");
  CHECK(read(served.next()) == "d");
}

TEST_CASE("those that wait for a replica are given up when that has lasted long enough", "[serve]") {
  auto desk = desk_with(20ms);
  const auto client = desk.ask("a");
  auto coming = client.next();
  const auto start = Clock::now();
  desk.dispatcher->note_failed_start(no_room);
  CHECK(read(std::move(coming)) == told_why);
  CHECK(Clock::now() - start >= 20ms);
}

TEST_CASE("those that wait in vain are told also when one who comes is the first to find that", "[serve]") {
  auto desk = desk_with(5ms);
  const auto client = desk.ask("a");
  auto coming = client.next();
  desk.dispatcher->note_failed_start(no_room);
  // So many come that the timer is hardly ever the first to look. They stay: who leaves has others looked at, too.
  std::vector<ChatClient> others;
  for (std::string told; told != told_why;) {
    const auto other = desk.ask("b");
    auto answer = other.next();
    if (has_come(answer))
      told = read(std::move(answer));
    else
      others.push_back(other);
  }
  REQUIRE(eventually([&] { return has_come(coming); }));
  CHECK(read(std::move(coming)) == told_why);
}

TEST_CASE("requests wait for a start that is on its way when others have failed for long enough", "[serve]") {
  auto desk = desk_with(0s);
  PlayedGenerator replica;
  const auto before = gpuactors::Clock::now();
  const auto client = desk.ask("a");
  auto coming = client.next();
  desk.dispatcher->note_start(before);
  desk.dispatcher->note_start(before);
  desk.dispatcher->note_failed_start(no_room);
  desk.dispatcher->note_start_over(before);
  CHECK_FALSE(has_come(coming));
  CHECK(desk.dispatcher->why_not()
        == "it has no replica: the last start failed: no_capacity: no node offers 2 GPUs; another start is on its way");
  const auto other = desk.ask("b");
  auto coming_too = other.next();
  CHECK_FALSE(has_come(coming_too));
  SECTION("it brings a replica") {
    desk.add(1, replica);
    desk.dispatcher->note_start_over(before);
    replica.play(0).item("c");
    CHECK(read(std::move(coming)) == "c");
  }
  SECTION("it fails, too") {
    desk.dispatcher->note_failed_start(no_room);
    desk.dispatcher->note_start_over(before);
    CHECK(read(std::move(coming)) == told_why);
    CHECK(read(std::move(coming_too)) == told_why);
    // What begins from now on is for those who come when a replica serves.
    desk.dispatcher->note_start(gpuactors::Clock::now());
    const auto late = desk.ask("d");
    CHECK(read(late.next()) == told_why + std::string{"; another start is on its way"});
  }
}

TEST_CASE("a start that fails while another replica serves is nothing to those who ask", "[serve]") {
  auto desk = desk_with(0s);
  PlayedGenerator replica;
  desk.add(1, replica);
  desk.dispatcher->note_failed_start(no_room);
  CHECK(desk.dispatcher->serves());
  const auto client = desk.ask("a");
  replica.play(0).item("b");
  CHECK(read(client.next()) == "b");
  // One that is lost then is waited for, until another start fails.
  desk.dispatcher->lose(1, {Errc::worker_died, "it fell"});
  const auto waits = desk.ask("c");
  auto coming = waits.next();
  CHECK_FALSE(has_come(coming));
  desk.dispatcher->note_failed_start(no_room);
  CHECK(read(std::move(coming)) == told_why);
}

TEST_CASE("a timeout that passes without a replica says why there is none", "[serve]") {
  auto desk = desk_with(1min);
  desk.dispatcher->note_failed_start(no_room);
  const auto client = desk.ask("a", 5ms);
  CHECK(read(client.next())
        == "deadline_exceeded: model chat, version 1 did not answer within the timeout of 5.000 ms: it has no "
           "replica: the last start failed: no_capacity: no node offers 2 GPUs");
}

TEST_CASE("a request of a generative model waits for its turn as long as it may, and runs as long as it likes",
          "[serve]") {
  auto desk = desk_with(1min);
  PlayedGenerator replica;
  desk.add(1, replica);
  const auto runs = desk.ask("a", {}, 1, {}, {}, 5ms);
  const auto waits = desk.ask("b", {}, 1, {}, {}, 5ms);
  CHECK(read(waits.next()) == "queue_full: model chat, version 1 had no room for it within 5.000 ms: ask again later");
  CHECK(desk.dispatcher->snapshot().counts.expired_waiting == 1);
  replica.play(0).item("c");
  CHECK(read(runs.next()) == "c");
  // What has run waits for another replica without that limit.
  const auto lost = desk.ask("d", {}, 1, {}, {}, 1min);
  replica.play(0).finish();
  CHECK(read(runs.next()) == "END");
  CHECK(replica.count() == 2);
  // Where no replica serves, that is why it had to wait.
  desk.dispatcher->lose(1, {Errc::worker_died, "it fell"});
  const auto late = desk.ask("e", {}, 1, {}, {}, 5ms);
  CHECK(read(late.next()).starts_with("unavailable: model chat, version 1 has no replica: another one is being"));
  auto coming = lost.next();
  CHECK_FALSE(has_come(coming));
}

TEST_CASE("a model that is closed answers what it has accepted, and takes nothing else", "[serve]") {
  auto desk = desk_with(1min);
  PlayedGenerator replica;
  PlayedGenerator next;
  desk.add(1, replica);
  const auto runs = desk.ask("a");
  const auto waits = desk.ask("b");
  desk.dispatcher->refuse_new("it makes room");
  CHECK_FALSE(desk.dispatcher->serves());
  CHECK(desk.dispatcher->why_not() == "it takes no requests: it makes room");
  const auto refused = desk.ask("c");
  CHECK(read(refused.next()) == "unavailable: model chat, version 1 takes no requests: it makes room");
  for (const auto index : {0U, 1U}) {
    replica.play(index).item("d");
    replica.play(index).finish();
    const auto& client = index == 0 ? runs : waits;
    CHECK(read(client.next()) == "d");
    CHECK(read(client.next()) == "END");
  }
  desk.dispatcher->retire(1);
  CHECK(desk.dispatcher->remove_idle(1));
  // Who comes when it is open again waits for the next replica.
  desk.dispatcher->open();
  const auto client = desk.ask("e");
  auto coming = client.next();
  CHECK_FALSE(has_come(coming));
  desk.add(2, next);
  next.play(0).item("f");
  CHECK(read(std::move(coming)) == "f");
}

TEST_CASE("what still waits when the only replica of a closed model leaves is given up", "[serve]") {
  auto desk = desk_with(1min);
  PlayedGenerator replica;
  desk.add(1, replica);
  const auto runs = desk.ask("a");
  const auto waits = desk.ask("b");
  auto coming = waits.next();
  desk.dispatcher->refuse_new("it makes room");
  CHECK_FALSE(has_come(coming));
  desk.dispatcher->retire(1);
  CHECK(read(std::move(coming)) == "unavailable: model chat, version 1 takes no requests: it makes room");
  replica.play(0).item("c");
  CHECK(read(runs.next()) == "c");
}

TEST_CASE("a sequence goes on at a replica that leaves a closed model", "[serve]") {
  auto desk = desk_with(1min, wire::SEQUENCE_MEMORY_STATE);
  PlayedGenerator replica;
  desk.add(1, replica);
  const auto begins = desk.ask("a", {}, 1, {"7", true, false});
  replica.play(0).finish();
  CHECK(read(begins.next()) == "END");
  desk.dispatcher->refuse_new("it makes room");
  const auto goes_on = desk.ask("b", {}, 1, {"7", false, false});
  REQUIRE(replica.count() == 2);
  const auto behind = desk.ask("c", {}, 1, {"7", false, true});
  desk.dispatcher->retire(1);
  const auto other = desk.ask("d", {}, 1, {"8", true, false});
  CHECK(read(other.next()).starts_with("unavailable: "));
  for (const auto* client : {&goes_on, &behind}) {
    replica.play(replica.count() - 1).finish();
    CHECK(read(client->next()) == "END");
  }
  CHECK(desk.dispatcher->remove_idle(1));
}

TEST_CASE("a model whose only replica cannot be started again says why, and refuses with that", "[serve]") {
  Server server;
  made<OnceDigits>() = 0;
  must(server.table.add(must(parse_model("digits,actor=test/once-digits,replica-wait=0", {}))));
  must(server.table.load("digits", {}));
  CHECK(entry_of(server.table).state == "READY");
  must(server.cluster.kill("digits/1/1"));
  // The first who waits is told as soon as it is known.
  const auto waits = ask(server.table, request_for("digits", some_rows(1, 1)));
  CHECK(code_of(waits) == Errc::unavailable);
  CHECK(says(waits, "model digits, version 1 has no replica: the last start failed: task_failed: "));
  CHECK(says(waits, "there was one already"));
  CHECK(code_of(ask(server.table, request_for("digits", some_rows(1, 1)))) == Errc::unavailable);
  const auto entry = entry_of(server.table);
  CHECK(entry.state == "UNAVAILABLE");
  CHECK(entry.reason.starts_with("it has no replica: the last start failed: task_failed: "));
  CHECK(entry.reason.size() < 2 * longest_sentence);
  CHECK_FALSE(must(server.table.model_ready("digits", "")));
  CHECK_FALSE(server.table.ready());
  const auto metrics = server.table.metrics();
  INFO(metrics);
  const std::string refused = "gpuactors_serve_refused{model=\"digits\",version=\"1\",why=\"no_replica\"} ";
  CHECK(metrics.find(refused) != std::string::npos);
  CHECK(metrics.find(refused + "0\n") == std::string::npos);
  // And serves when it can be.
  made<OnceDigits>() = 0;
  CHECK(eventually([&] { return server.table.ready(); }));
  must(ask(server.table, request_for("digits", some_rows(1, 1))));
}

TEST_CASE("requests wait for a replica that loads, although another one could not be started", "[serve]") {
  Server server;
  made<ThirdHeld>() = 0;
  must(server.table.add(must(parse_model("digits,actor=test/third-held,replica-wait=0,replicas=2", {}))));
  must(server.table.load("digits", {}));
  const ClosedGate closed;
  must(server.cluster.kill("digits/1/1"));
  gate().await(1);
  must(server.cluster.kill("digits/1/2"));
  auto waits = ask_async(server.table, request_for("digits", some_rows(1, 1)));
  const std::string failed = "gpuactors_serve_starts_failed{model=\"digits\",version=\"1\"} ";
  REQUIRE(server.table.metrics().find(failed) != std::string::npos);
  REQUIRE(eventually([&] { return server.table.metrics().find(failed + "0\n") == std::string::npos; }));
  CHECK_FALSE(waits.reply.ready());
  CHECK(entry_of(server.table).reason.ends_with("there were three already; another start is on its way"));
  gate().open();
  must(waits.reply.get());
}

TEST_CASE("a model that cannot be loaded says why, cut where that is long", "[serve]") {
  Server server;
  made<OnceDigits>() = 1;
  must(server.table.add(must(parse_model("digits,actor=test/once-digits", {}))));
  CHECK(says(server.table.load("digits", {}), "there was one already"));
  const auto entry = entry_of(server.table);
  CHECK(entry.state == "UNAVAILABLE");
  CHECK(entry.reason.find("there was one already") != std::string::npos);
  CHECK(entry.reason.size() == longest_sentence + 3);
}

TEST_CASE("a model that is loaded again says what the last try failed with", "[serve]") {
  Server server;
  const auto file = server.folder / "late";
  must(server.table.add(must(parse_model("digits=" + file.string() + ",actor=test/held-start", {}))));
  CHECK(says(server.table.load("digits", {}), "cannot be read"));
  write_checkpoint(file, 1);
  const ClosedGate closed;
  auto loaded = std::async(std::launch::async, [&] { return server.table.load("digits", {}); });
  gate().await(1);
  const auto entry = entry_of(server.table);
  CHECK(entry.state == "LOADING");
  CHECK(entry.reason.starts_with("the last try failed: "));
  CHECK(entry.reason.find("cannot be read") != std::string::npos);
  gate().open();
  must(loaded.get());
  CHECK(entry_of(server.table).state == "READY");
  CHECK(entry_of(server.table).reason.empty());
}
