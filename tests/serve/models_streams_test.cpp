// Requests of a generative model on their way to replicas that the test plays itself: it says which items come, and how
// streams end.
#include "models_played.hpp"

#include <apps/serve/models/counting.hpp>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Clock;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::Error;

TEST_CASE("a replica of a generative model runs several requests at once, and the others wait in their order",
          "[serve]") {
  ChatDesk desk;
  PlayedGenerator replica;
  desk.add(1, replica);
  const auto a = desk.ask("a");
  const auto b = desk.ask("b");
  const auto c = desk.ask("c");
  const auto urgent = desk.ask("urgent", {}, 0);
  REQUIRE(replica.count() == 2);
  CHECK(replica.play(0).request.id() == "a");
  CHECK(replica.play(1).request.inputs(0).data().substr(4) == "b");
  CHECK(replica.play(0).time == Duration::max());
  CHECK(desk.dispatcher->look().waiting == 2);
  CHECK(desk.dispatcher->snapshot().running == 2);
  auto of_a = a.next();
  auto of_b = b.next();
  replica.play(1).item("B");
  CHECK_FALSE(has_come(of_a));
  CHECK(read(std::move(of_b)) == "B");
  replica.play(0).item("A1");
  replica.play(0).item("A2");
  CHECK(read(std::move(of_a)) == "A1");
  CHECK(read(a.next()) == "A2");
  replica.play(0).finish();
  CHECK(read(a.next()) == "END");
  REQUIRE(replica.count() == 3);
  CHECK(replica.play(2).request.id() == "urgent");
  replica.play(1).finish();
  CHECK(read(b.next()) == "END");
  REQUIRE(replica.count() == 4);
  CHECK(replica.play(3).request.id() == "c");
  const auto snapshot = desk.dispatcher->snapshot();
  CHECK(snapshot.items == 3);
  CHECK(snapshot.statistics.success.count == 2);
  CHECK(snapshot.latencies.first_item.count() == 2);
}

TEST_CASE("requests go to the replica that has the fewest, and one without any may end", "[serve]") {
  ChatDesk desk{4};
  PlayedGenerator first;
  PlayedGenerator second;
  desk.add(1, first);
  desk.add(2, second);
  const auto a = desk.ask("a");
  const auto b = desk.ask("b");
  CHECK(first.count() == 1);
  CHECK(second.count() == 1);
  CHECK_FALSE(desk.dispatcher->remove_idle(2));
  second.play(0).finish();
  CHECK(read(b.next()) == "END");
  CHECK(desk.dispatcher->remove_idle(2));
}

TEST_CASE("where replicas come and go, requests fill one to a half before they need the next", "[serve]") {
  ChatDesk desk{4, 100, true};
  PlayedGenerator first;
  PlayedGenerator second;
  desk.add(1, first);
  desk.add(2, second);
  std::vector<ChatClient> clients;
  for (int i = 0; i < 2; ++i)
    clients.push_back(desk.ask("a" + std::to_string(i)));
  CHECK(first.count() == 2);
  CHECK(second.count() == 0);
  for (int i = 0; i < 2; ++i)
    clients.push_back(desk.ask("b" + std::to_string(i)));
  CHECK(second.count() == 2);
  // Then by turns until both are full.
  for (int i = 0; i < 5; ++i)
    clients.push_back(desk.ask("c" + std::to_string(i)));
  CHECK(first.count() == 4);
  CHECK(second.count() == 4);
}

TEST_CASE("of requests that were lost together, the one that kills replicas fails, and the others are answered",
          "[serve]") {
  ChatDesk desk{4};
  PlayedGenerator replicas[3];
  desk.add(1, replicas[0]);
  const auto killer = desk.ask("killer");
  const auto first = desk.ask("first");
  const auto second = desk.ask("second");
  REQUIRE(replicas[0].count() == 3);
  auto of_killer = killer.next();
  replicas[0].play(0).fail(Errc::worker_died);
  // It goes first, as it came first, and alone.
  desk.add(2, replicas[1]);
  REQUIRE(replicas[1].count() == 1);
  CHECK(replicas[1].play(0).request.id() == "killer");
  // A request that was never lost is held up meanwhile, as order is kept.
  const auto fresh = desk.ask("fresh");
  CHECK(replicas[1].count() == 1);
  replicas[1].play(0).fail(Errc::worker_died);
  desk.add(3, replicas[2]);
  REQUIRE(replicas[2].count() == 1);
  replicas[2].play(0).fail(Errc::worker_died);
  CHECK(code_of(of_killer.get()) == Errc::worker_died);
  PlayedGenerator last;
  desk.add(4, last);
  REQUIRE(last.count() == 1);
  CHECK(last.play(0).request.id() == "first");
  last.play(0).item("F");
  CHECK(read(first.next()) == "F");
  // It is none that kills; now the next one.
  REQUIRE(last.count() == 3);
  CHECK(last.play(1).request.id() == "second");
  CHECK(last.play(2).request.id() == "fresh");
  last.play(1).item("S");
  CHECK(read(second.next()) == "S");
}

TEST_CASE("a request that was lost goes where the fewest run, although others are not half full", "[serve]") {
  ChatDesk desk{4, 100, true};
  PlayedGenerator first;
  PlayedGenerator second;
  PlayedGenerator third;
  desk.add(1, first);
  desk.add(2, second);
  const auto a = desk.ask("a");
  const auto b = desk.ask("b");
  REQUIRE(first.count() == 2);
  const auto lost = desk.ask("lost");
  REQUIRE(second.count() == 1);
  auto end_of_a = a.next();
  first.play(0).finish();
  CHECK(read(std::move(end_of_a)) == "END");
  desk.add(3, third);
  auto of_lost = lost.next();
  second.play(0).fail(Errc::worker_died);
  // The first one has one, and would be filled.
  REQUIRE(third.count() == 1);
  CHECK(third.play(0).request.id() == "lost");
}

TEST_CASE("requests that were lost together do not wait for ever for the first one's item", "[serve]") {
  ChatDesk desk{4};
  PlayedGenerator first;
  PlayedGenerator second;
  desk.add(1, first);
  const auto slow = desk.ask("slow");
  const auto other = desk.ask("other");
  auto of_slow = slow.next();
  first.play(0).fail(Errc::worker_died);
  desk.add(2, second);
  REQUIRE(second.count() == 1);
  slow.generation->pending()->sent -= 11s; // as if it had run for so long
  const auto fresh = desk.ask("fresh");
  REQUIRE(second.count() == 3);
  CHECK(second.play(1).request.id() == "other");
  CHECK(second.play(2).request.id() == "fresh");
}

TEST_CASE("a client that withdraws ends its stream, and makes room for the next request at once", "[serve]") {
  ChatDesk desk{1};
  PlayedGenerator replica;
  desk.add(1, replica);
  const auto running = desk.ask("running");
  const auto waiting = desk.ask("waiting");
  auto last = desk.ask("last");
  auto reply = running.next();
  waiting.generation->cancel();
  CHECK(read(waiting.next()).starts_with("cancelled"));
  CHECK_FALSE(replica.play(0).withdrawn);
  running.generation->cancel();
  CHECK(replica.play(0).withdrawn);
  CHECK(read(std::move(reply)).starts_with("cancelled"));
  CHECK(read(running.next()).starts_with("cancelled"));
  REQUIRE(replica.count() == 2);
  CHECK(replica.play(1).request.id() == "last");
  // What nobody holds any more is withdrawn, too.
  { const auto dropped = std::move(last); }
  CHECK(desk.dispatcher->snapshot().statistics.failures.at("CANCELED") == 3);
}

TEST_CASE("whoever lets go of a request withdraws it", "[serve]") {
  ChatDesk desk{1};
  PlayedGenerator replica;
  desk.add(1, replica);
  {
    const auto client = desk.ask("a");
    replica.play(0).item("A");
  }
  CHECK(replica.play(0).withdrawn);
  CHECK(desk.dispatcher->snapshot().running == 0);
}

TEST_CASE("a lost replica's requests without items go to another one, before those that wait", "[serve]") {
  ChatDesk desk;
  PlayedGenerator first;
  desk.add(1, first);
  const auto begun = desk.ask("begun");
  const auto fresh = desk.ask("fresh");
  const auto later = desk.ask("later");
  first.play(0).item("B1");
  CHECK(read(begun.next()) == "B1");
  auto of_begun = begun.next();
  auto of_fresh = fresh.next();
  first.play(1).fail(Errc::worker_died);
  CHECK(desk.changes == 1);
  CHECK(desk.dispatcher->take_lost().size() == 1);
  const auto lost = of_begun.get();
  CHECK(code_of(lost) == Errc::unavailable);
  CHECK(says(lost, "model chat, version 1: the replica was lost after 1 items of the answer; ask again"));
  CHECK(first.play(0).withdrawn);
  CHECK_FALSE(has_come(of_fresh));
  PlayedGenerator second;
  desk.add(2, second);
  REQUIRE(second.count() == 2);
  CHECK(second.play(0).request.id() == "fresh");
  CHECK(second.play(1).request.id() == "later");
  // What the dead one may still say is not heard.
  first.play(1).item("old");
  second.play(0).item("F1");
  CHECK(read(std::move(of_fresh)) == "F1");
  second.play(0).finish();
  CHECK(read(fresh.next()) == "END");
}

TEST_CASE("a request that is lost with three replicas fails", "[serve]") {
  ChatDesk desk;
  const auto client = desk.ask("deadly");
  auto reply = client.next();
  std::deque<PlayedGenerator> replicas(3);
  for (std::uint64_t id = 0; id < 3; ++id) {
    CHECK_FALSE(has_come(reply));
    desk.add(id, replicas[id]);
    REQUIRE(replicas[id].count() == 1);
    desk.dispatcher->lose(id, Error{Errc::actor_died, "as the test says"});
  }
  const auto failed = reply.get();
  CHECK(code_of(failed) == Errc::worker_died);
  CHECK(says(failed, "3 replicas were lost with this request"));
  CHECK(desk.dispatcher->snapshot().lost == 3);
}

TEST_CASE("an error of a stream fails its request alone, with the code that clients should see", "[serve]") {
  ChatDesk desk{8};
  PlayedGenerator replica;
  desk.add(1, replica);
  const auto other = desk.ask("other");
  const auto fails_with = [&](Errc said, Errc seen) {
    const auto client = desk.ask("a");
    replica.plays.back()->fail(said);
    const auto reply = client.next().get();
    CHECK(code_of(reply) == seen);
    CHECK(says(reply, "model chat, version 1 could not answer: "));
  };
  fails_with(Errc::invalid_argument, Errc::invalid_argument);
  fails_with(Errc::queue_full, Errc::queue_full);
  fails_with(Errc::deadline_exceeded, Errc::deadline_exceeded);
  fails_with(Errc::task_failed, Errc::task_failed);
  fails_with(Errc::out_of_memory, Errc::task_failed);
  CHECK(desk.dispatcher->snapshot().lost == 0);
  // It had no room, and nobody has left.
  const auto failures = desk.dispatcher->snapshot().statistics.failures;
  CHECK(failures.at(reason::rejected) == 1);
  CHECK_FALSE(failures.contains(reason::cancelled));
  replica.play(0).item("still there");
  CHECK(read(other.next()) == "still there");
}

TEST_CASE("an item that is not what was described fails its request and ends its stream", "[serve]") {
  ChatDesk desk{8};
  PlayedGenerator replica;
  desk.add(1, replica);
  const auto check = [&](const std::function<void(wire::GenerateReply&)>& spoil, const std::string& words) {
    const auto client = desk.ask("a");
    auto reply = client.next();
    auto item = item_of("b");
    spoil(item);
    replica.plays.back()->say(std::optional{item});
    const auto failed = reply.get();
    CHECK(code_of(failed) == Errc::task_failed);
    CHECK(says(failed, words));
    CHECK(replica.plays.back()->withdrawn);
  };
  check([](auto& item) { item.clear_outputs(); }, "answered an item without outputs");
  check([](auto& item) { item.mutable_outputs(0)->set_name("txt"); }, "an output \"txt\", which it has not described");
  check([](auto& item) { *item.add_outputs() = item.outputs(0); }, "the output \"text\" twice in one item");
  check([](auto& item) { item.mutable_outputs(0)->set_shape(0, 2); }, "in the shape [2], and has described [1]");
  check([](auto& item) { item.mutable_outputs(0)->add_shape(1); }, "in the shape [1,1], and has described [1]");
  check([](auto& item) { item.mutable_outputs(0)->mutable_data()->pop_back(); }, "which end within element 0 of 1");
  check([](auto& item) { item.mutable_outputs(0)->mutable_data()->push_back('c'); }, "1 bytes behind its 1 elements");
  check(
      [](auto& item) {
        auto& tokens = *item.add_outputs();
        tokens.set_name("tokens");
        tokens.add_shape(2);
        tokens.set_data("1234");
      },
      "output \"tokens\" has 4 bytes");
  CHECK(desk.dispatcher->snapshot().lost == 0);
}

TEST_CASE("outputs that a request does not want are left out, and items without others passed over", "[serve]") {
  ChatDesk desk;
  PlayedGenerator replica;
  desk.add(1, replica);
  auto request = prompt("a");
  request.outputs = {"tokens"};
  request.parameters = {{"seed", std::int64_t{3}}, {"cool", 0.5}, {"on", true}, {"stop", std::string{"."}}};
  const auto generation = Generation::of(std::move(request));
  generation->pending()->arrived = Clock::now();
  generation->belongs_to(desk.dispatcher);
  REQUIRE(desk.dispatcher->submit(generation->pending()));
  const auto& seen = replica.play(0).request;
  CHECK(seen.outputs(0) == "tokens");
  CHECK(seen.parameters().at("seed").int_value() == 3);
  CHECK(seen.parameters().at("cool").double_value() == 0.5);
  CHECK(seen.parameters().at("on").bool_value());
  CHECK(seen.parameters().at("stop").string_value() == ".");
  const ChatClient client{generation};
  auto coming = client.next();
  replica.play(0).item("text alone");
  CHECK_FALSE(has_come(coming));
  auto item = item_of("text and tokens");
  auto& tokens = *item.add_outputs();
  tokens.set_name("tokens");
  tokens.add_shape(1);
  tokens.set_data("1234");
  replica.play(0).say(std::optional{item});
  const auto reply = must(coming.get());
  REQUIRE(reply);
  REQUIRE(reply->outputs.size() == 1);
  CHECK(reply->outputs[0].name == "tokens");
  CHECK(desk.dispatcher->snapshot().items == 1);
}

TEST_CASE("a timeout ends a request that waits and one that runs, whatever it has had", "[serve]") {
  ChatDesk desk{1};
  PlayedGenerator replica;
  desk.add(1, replica);
  const auto running = desk.ask("running", 300ms);
  const auto waiting = desk.ask("waiting", 100ms);
  const auto after = desk.ask("after");
  CHECK(replica.play(0).time <= 300ms);
  replica.play(0).item("R");
  CHECK(read(running.next()) == "R");
  const auto late = running.next().get();
  CHECK(code_of(late) == Errc::deadline_exceeded);
  CHECK(says(late, "did not answer within the timeout of 300.000 ms"));
  CHECK(read(waiting.next()).starts_with("deadline_exceeded"));
  CHECK(replica.play(0).withdrawn);
  while (replica.count() < 2)
    std::this_thread::yield();
  CHECK(replica.play(1).request.id() == "after");
}

TEST_CASE("a full queue of a generative model refuses by number and by bytes", "[serve]") {
  ChatDesk desk{1, 1};
  PlayedGenerator replica;
  desk.add(1, replica);
  const auto running = desk.ask("a");
  const auto waiting = desk.ask("b");
  const auto many = desk.ask("c").next().get();
  CHECK(code_of(many) == Errc::queue_full);
  CHECK(says(many, "the queue is full"));
  ChatDesk small{1, 100};
  small.add(1, replica);
  const auto one = small.ask("a");
  const auto large = small.ask(std::string(900, 'b'));
  const auto too_large = small.ask(std::string(200, 'c')).next().get();
  CHECK(code_of(too_large) == Errc::queue_full);
  CHECK(says(too_large, "requests of 900 bytes wait, and 1000 may"));
}

TEST_CASE("a version that ends lets its streams end in time, and fails the others", "[serve]") {
  ChatDesk desk;
  PlayedGenerator replica;
  desk.add(1, replica);
  const auto quick = desk.ask("quick");
  const auto slow = desk.ask("slow");
  auto of_quick = quick.next();
  auto of_slow = slow.next();
  std::thread closing{[&] { desk.dispatcher->close(Clock::now() + 2s); }};
  replica.play(0).item("Q");
  CHECK(read(std::move(of_quick)) == "Q");
  replica.play(0).finish();
  CHECK(read(quick.next()) == "END");
  closing.join();
  const auto failed = of_slow.get();
  CHECK(code_of(failed) == Errc::unavailable);
  CHECK(says(failed, "was taken out of service"));
  CHECK(replica.play(1).withdrawn);
  const auto refused = desk.ask("late");
  CHECK_FALSE(desk.accepted);
}

TEST_CASE("each of many streams has its own items in their order and one end, whatever happens to replicas",
          "[serve]") {
  ChatDesk desk{4};
  PlayedGenerator replicas[2];
  desk.add(0, replicas[0]);
  desk.add(1, replicas[1]);
  constexpr int clients = 8;
  constexpr int rounds = 20;
  std::atomic<bool> done{false};
  std::thread playing{[&] {
    std::uint64_t next_id = 2;
    std::size_t begun[2] = {0, 0};
    for (int turn = 0; !done; ++turn) {
      auto& replica = replicas[turn % 2];
      for (; begun[turn % 2] < replica.count(); ++begun[turn % 2]) {
        auto& play = replica.play(begun[turn % 2]);
        const auto fate = begun[turn % 2] % 7;
        for (int i = 0; i < 3 && fate != 5; ++i)
          play.item(play.request.id() + std::to_string(i));
        if (fate == 5) {
          play.fail(Errc::actor_died);
          desk.add(next_id++, replica);
        } else {
          play.finish();
        }
      }
      std::this_thread::yield();
    }
  }};
  std::atomic<int> ended{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < rounds; ++round) {
        const auto id = std::to_string(i) + "." + std::to_string(round) + ".";
        const auto client = desk.ask(id);
        for (int item = 0;; ++item) {
          const auto reply = client.next().get();
          if (reply && *reply) {
            auto data = (*reply)->outputs[0].data.view().subspan(4);
            const std::string text{reinterpret_cast<const char*>(data.data()), data.size()};
            wrong += text == id + std::to_string(item) ? 0 : 1;
            continue;
          }
          wrong += reply && item != 3 ? 1 : 0;
          ++ended;
          break;
        }
      }
    });
  for (auto& thread : threads)
    thread.join();
  done = true;
  playing.join();
  CHECK(ended == clients * rounds);
  CHECK(wrong == 0);
  const auto snapshot = desk.dispatcher->snapshot();
  CHECK(snapshot.running == 0);
  CHECK(snapshot.counts.answered + snapshot.counts.failed == clients * rounds);
  // Those that met a replica that died failed at the third one at the latest.
  CHECK(snapshot.lost > 0);
  CHECK(snapshot.counts.answered > snapshot.counts.failed);
}
