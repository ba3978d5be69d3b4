// Sequences of generative models: streams of replicas that the test plays.
#include "models_played.hpp"

#include <future>

using namespace serve;
using namespace serve::test;
using gpuactors::Errc;

TEST_CASE("requests of a conversation are at one replica, one after the other", "[serve]") {
  ChatDesk desk{2, 100, false, wire::SEQUENCE_MEMORY_STATE};
  PlayedGenerator one;
  PlayedGenerator two;
  desk.add(1, one);
  auto first = desk.ask("hello", {}, 1, {"c", true, false});
  REQUIRE(one.count() == 1);
  CHECK(one.play(0).request.sequence().id() == "c");
  CHECK(one.play(0).request.sequence().start());
  desk.add(2, two);
  auto second = desk.ask("and", {}, 1, {"c", false, false});
  auto other = desk.ask("other");
  // The replica has room for the second, which waits for the first one's end.
  CHECK(one.count() == 1);
  CHECK(two.count() == 1);
  one.play(0).item("hi");
  CHECK(read(first.next()) == "hi");
  one.play(0).finish();
  CHECK(read(first.next()) == "END");
  REQUIRE(one.count() == 2);
  CHECK_FALSE(one.play(1).request.sequence().start());
  auto third = desk.ask("bye", {}, 1, {"c", false, true});
  desk.dispatcher->lose(1, {Errc::actor_died, "as the test says"});
  for (auto* client : {&second, &third})
    CHECK(read(client->next()).find("the state of the sequence \"c\" was lost with its replica") != std::string::npos);
  CHECK(two.count() == 1);
  CHECK(read(desk.ask("again", {}, 1, {"c", false, false}).next()).find("there is no sequence \"c\"")
        != std::string::npos);
  two.play(0).finish();
  CHECK(read(other.next()) == "END");
}

TEST_CASE("who stops an answer that has begun goes on with the conversation from there", "[serve]") {
  ChatDesk desk{2, 100, false, wire::SEQUENCE_MEMORY_STATE};
  PlayedGenerator replica;
  desk.add(1, replica);
  auto first = desk.ask("hello", {}, 1, {"c", true, false});
  replica.play(0).item("hi");
  CHECK(read(first.next()) == "hi");
  first.generation->cancel();
  auto second = desk.ask("and", {}, 1, {"c", false, false});
  REQUIRE(replica.count() == 2);
  replica.play(1).finish();
  CHECK(read(second.next()) == "END");
}

TEST_CASE("requests that were lost with a replica go one by one, whatever waits before them for another", "[serve]") {
  ChatDesk desk{4, 100, false, wire::SEQUENCE_MEMORY_STATE};
  PlayedGenerator one;
  PlayedGenerator two;
  desk.add(2, two);
  auto runs = desk.ask("runs", {}, 1, {"x", true, false});
  auto waits = desk.ask("waits", {}, 1, {"x", false, false});
  desk.add(1, one);
  auto a = desk.ask("a", {}, 1, {"a", true, false});
  desk.dispatcher->lose(1, {Errc::actor_died, "as the test says"});
  CHECK(one.count() == 1);
  REQUIRE(two.count() == 2);
  PlayedGenerator three;
  desk.add(3, three);
  auto b = desk.ask("b", {}, 1, {"b", true, false});
  REQUIRE(three.count() == 1);
  desk.dispatcher->lose(3, {Errc::actor_died, "as the test says"});
  // The one of "a" has no item yet.
  CHECK(two.count() == 2);
  two.play(1).item("an item");
  CHECK(read(a.next()) == "an item");
  REQUIRE(two.count() == 3);
  two.play(2).finish();
  CHECK(read(b.next()) == "END");
}

TEST_CASE("a request of a sequence that was lost goes where the fewest run, although others are not half full",
          "[serve]") {
  ChatDesk desk{4, 100, true, wire::SEQUENCE_MEMORY_STATE};
  PlayedGenerator one;
  PlayedGenerator two;
  PlayedGenerator three;
  desk.add(1, one);
  auto stays = desk.ask("stays");
  auto ends = desk.ask("ends");
  desk.add(3, three);
  auto lost = desk.ask("lost", {}, 1, {"a", true, false});
  REQUIRE(three.count() == 1);
  one.play(1).finish();
  CHECK(read(ends.next()) == "END");
  desk.add(2, two);
  desk.dispatcher->lose(3, {Errc::actor_died, "as the test says"});
  CHECK(one.count() == 2);
  REQUIRE(two.count() == 1);
  two.play(0).finish();
  CHECK(read(lost.next()) == "END");
}

TEST_CASE("requests reach a replica in the order in which they were begun, and not when they were withdrawn",
          "[serve]") {
  ChatDesk desk{2, 100, false, wire::SEQUENCE_MEMORY_STATE};
  PlayedGenerator replica;
  std::promise<void> goes_on;
  std::promise<void> sends;
  auto a = desk.ask("a", {}, 1, {"a", true, false});
  auto b = desk.ask("b", {}, 1, {"b", true, false});
  auto sending = std::async(std::launch::async, [&] {
    auto run = [&, play = replica.run()](wire::GenerateRequest request, gpuactors::Duration time) {
      if (request.id() == "a") {
        sends.set_value();
        goes_on.get_future().wait();
      }
      return play(std::move(request), time);
    };
    desk.dispatcher->add_generative({1, gpuactors::Share{2'500}, 0}, run);
  });
  sends.get_future().wait();
  b.generation->cancel();
  auto c = desk.ask("c", {}, 1, {"c", true, false});
  CHECK(replica.count() == 0);
  goes_on.set_value();
  sending.get();
  REQUIRE(replica.count() == 2);
  CHECK(replica.play(0).request.id() == "a");
  CHECK(replica.play(1).request.id() == "c");
}

TEST_CASE("a client that leaves its conversation lets the next request of it go", "[serve]") {
  ChatDesk desk{2, 100, false, wire::SEQUENCE_MEMORY_CACHE};
  PlayedGenerator replica;
  desk.add(1, replica);
  auto gone = desk.ask("hello", {}, 1, {"c", false, false});
  auto next = desk.ask("and", {}, 1, {"c", false, false});
  REQUIRE(replica.count() == 1);
  gone.generation->cancel();
  REQUIRE(replica.count() == 2);
  replica.play(1).finish();
  CHECK(read(next.next()) == "END");
}
