// The broker's core alone: what programs with one client's certificate may have there, so that others have room.
#include <gpuactors/broker/core/requests.hpp>
#include <gpuactors/broker/core/rooms.hpp>

#include <broker/core_scene.hpp>
#include <fmt/format.h>

using namespace broker_test;
using Catch::Matchers::Contains;

namespace {

const Caller ann{"ann", false};
const Caller ben{"ben", false};
const Caller gpu1{"gpu1", true};

v1::Hello hello_of(std::uint64_t client) {
  v1::Hello message;
  message.set_client(client);
  message.set_reconnect_grace_ms(60'000);
  return message;
}

/// Why the broker does not take the client; empty: it does.
std::string refusal(Scene& scene, const v1::Hello& message, const Caller& caller) {
  const auto done = scene.core.hello(message, caller, std::make_shared<Somebody>());
  return done ? "" : done.error().message();
}

} // namespace

TEST_CASE("each name has room for so many things, and so many bytes of them", "[broker][core]") {
  Rooms rooms{"boxes", 2, 100};
  auto first = must(rooms.enter(ann, 60));
  const auto beyond = rooms.enter(ann, 41);
  CHECK(code_of(beyond) == Errc::queue_full);
  CHECK(beyond.error().message()
        == "\"ann\" has 1 boxes already, of 60 B in all: with 41 B more they would have more than the 100 B that one "
           "client may have");
  auto second = must(rooms.enter(ann, 40));
  const auto third = rooms.enter(ann, 0);
  CHECK(code_of(third) == Errc::queue_full);
  CHECK(third.error().message() == "\"ann\" has 2 boxes already, which is as many as one client may have");
  CHECK(rooms.enter(ben, 100).has_value());
  // Who administers is not bounded, and what is there already is not refused.
  CHECK(must(rooms.enter(gpu1, 1'000)) == nullptr);
  const auto loaded = rooms.hold("ann", 50);
  first.reset();
  CHECK_FALSE(rooms.enter(ann, 0).has_value());
  second.reset();
  CHECK(rooms.enter(ann, 50).has_value());
}

TEST_CASE("a place may be given back when the room is gone", "[broker][core]") {
  auto rooms = std::make_unique<Rooms>("boxes", 1, 1);
  auto place = must(rooms->enter(ann, 1));
  rooms.reset();
  place.reset();
}

TEST_CASE("leases for long requests that are the same serve each other, and not those for others", "[broker][core]") {
  Scene scene;
  scene.add_node();
  scene.greet(1, ann);
  const auto acquire = [&](char value) {
    v1::AcquireLease message;
    message.set_client(1);
    message.set_client_request(++scene.last_request);
    message.mutable_request()->set_cpu_units(100'000); // all that the node has, so that the next one waits
    auto& condition = (*message.mutable_request()->mutable_label_conditions())["zone"];
    condition.set_op(v1::LabelCondition::NOT_IN);
    condition.add_values(std::string(100, value));
    for (int i = 0; i < 20; ++i)
      condition.add_values(std::string(100, 'x') + std::to_string(i));
    scene.core.acquire(message, ann, BrokerAnswer<Grant>{[](const Result<Grant>&) {}});
  };
  acquire('a');
  REQUIRE(scene.world.runners.size() == 1);
  acquire('a');
  CHECK(scene.world.reclaims.empty());
  acquire('b');
  CHECK(scene.world.reclaims.size() == 1);
}

TEST_CASE("a client's leases for tasks are bounded", "[broker][core]") {
  Scene scene;
  scene.add_node();
  scene.greet(1, ann);
  v1::AcquireLease message;
  message.set_client(1);
  std::string refused;
  const auto acquire = [&] {
    message.set_client_request(++scene.last_request);
    scene.core.acquire(message, ann, BrokerAnswer<Grant>{[&](const Result<Grant>& grant) {
                         if (!grant)
                           refused = grant.error().message();
                       }});
  };
  for (std::size_t i = 0; i < limits::leases_per_name; ++i)
    acquire();
  CHECK(scene.world.runners.size() == limits::leases_per_name);
  CHECK(refused.empty());
  acquire();
  CHECK(scene.world.runners.size() == limits::leases_per_name);
  CHECK_THAT(refused, Contains("\"ann\" has 65536 leases for tasks, or requests for them already"));
  scene.end(scene.world.runners.front());
  refused.clear();
  acquire();
  CHECK(refused.empty());
}

TEST_CASE("clients cannot send requests that their library would not", "[broker][core]") {
  v1::FindActor message;
  message.set_name(std::string(limits::request_bytes, 'x'));
  const auto refused = size_of(message, {}, ann);
  CHECK(code_of(refused) == Errc::invalid_argument);
  CHECK_THAT(refused.error().message(), Contains("at most 16777216 are allowed"));
  CHECK(size_of(message, {}, gpu1).has_value());
  message.set_name("x");
  const auto config = Payload::from_bytes("T", std::string(1'000, 'x'));
  CHECK(must(size_of(message, config, ann)) == message.ByteSizeLong() + 1'000);
  CHECK(code_of(size_of(message, Payload::from_bytes("T", std::string(limits::payload_bytes + 1, 'x')), ann))
        == Errc::invalid_argument);
}

TEST_CASE("the broker keeps little of what clients call themselves", "[broker][core]") {
  Scene scene;
  auto message = hello_of(1);
  message.set_name(std::string(1U << 20, 'n'));
  message.set_release(std::string(1U << 20, 'r') + "\x1b");
  CHECK(refusal(scene, message, ann).empty());
  scene.core.peer_down(scene.world.last_peer);
  CHECK(refusal(scene, message, ann).empty());
  v1::GetState asked;
  asked.set_events_from(1);
  const auto state = scene.core.state(asked);
  REQUIRE(state.clients_size() == 1);
  CHECK(state.clients(0).name() == std::string(limits::name_length, 'n'));
  CHECK(state.clients(0).release() == std::string(limits::release_bytes, 'r'));
  CHECK(scene.count("client_away") == 1);
  CHECK(scene.count("client_returned") == 1);
  for (const auto& event : state.events())
    CHECK(event.name().size() <= 2 * limits::name_length);
  message.set_release("1.0\x1b[2J");
  CHECK(refusal(scene, message, ann).empty());
  CHECK(scene.core.state({}).clients(0).release() == "1.0 [2J");
}

TEST_CASE("one client's certificate is that of a bounded number of programs, away or not", "[broker][core]") {
  Scene scene;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < limits::clients_per_name; ++i)
    CHECK(refusal(scene, hello_of(++last), ann).empty());
  scene.core.peer_down(scene.world.last_peer);
  CHECK(refusal(scene, hello_of(last + 1), ann)
        == "\"ann\" has 1024 programs in the cluster, those included that are away and may come back, which is as many "
           "as one client may have");
  // It may come back, and others may come.
  CHECK(refusal(scene, hello_of(last), ann).empty());
  CHECK(refusal(scene, hello_of(last + 1), ben).empty());
  CHECK(refusal(scene, hello_of(last + 2), gpu1).empty());
  // One that has ended makes room.
  CHECK(refusal(scene, hello_of(last), ann).empty());
  v1::Goodbye goodbye;
  goodbye.set_client(last);
  scene.core.goodbye(goodbye);
  scene.core.peer_down(scene.world.last_peer);
  CHECK(refusal(scene, hello_of(last + 3), ann).empty());
}

TEST_CASE("a client claims a bounded number of leases", "[broker][core]") {
  Scene scene;
  auto message = hello_of(1);
  for (std::uint64_t lease = 1; lease <= limits::claimed_leases; ++lease)
    message.add_leases(lease);
  CHECK(refusal(scene, message, ann).empty());
  message.add_leases(limits::claimed_leases + 1);
  CHECK(refusal(scene, message, ann) == "the client says that it holds 65537 leases: at most 65536 are allowed");
}

TEST_CASE("a client's actors and groups are bounded, and their end makes room", "[broker][core]") {
  Scene scene;
  scene.greet(1, ann);
  scene.greet(2, ben);
  scene.add_node();
  const auto spawn = [&](std::uint64_t client, const Caller& caller, const std::string& name = {}) {
    auto message = Scene::actor_of(client, name);
    message.set_client_request(++scene.last_request);
    const auto answer = std::make_shared<std::optional<Error>>();
    scene.core.spawn_actor(message, caller, {}, BrokerAnswer<FoundActor>{[answer](const Result<FoundActor>& found) {
                             if (!found)
                               *answer = found.error();
                           }});
    return answer;
  };
  const auto first = scene.spawn(1, "first", ann);
  for (std::size_t i = 1; i < limits::started_per_name; ++i)
    spawn(1, ann);
  const auto refused = spawn(1, ann);
  REQUIRE(refused->has_value());
  CHECK((*refused)->code() == Errc::queue_full);
  CHECK_THAT((*refused)->message(), Contains("\"ann\" has 16384 actors and placement groups already"));
  v1::SubmitGroup group;
  group.set_client(1);
  group.set_client_request(++scene.last_request);
  group.add_bundles()->set_cpu_units(10'000);
  std::optional<Errc> code;
  scene.core.submit_group(group, ann, BrokerAnswer<v1::GroupInfo>{[&](const Result<v1::GroupInfo>& placed) {
                            code = placed ? Errc::internal : placed.error().code();
                          }});
  CHECK(code == Errc::queue_full);
  // Neither others nor who administers is held up by that.
  scene.spawn(2, "his", ben);
  scene.spawn(1, "ours", gpu1);
  (void)scene.kill("first", 0, ann);
  scene.end(first);
  scene.spawn(1, "next", ann);
}

TEST_CASE("a name that no actor can have is looked up and killed at no cost", "[broker][core]") {
  Scene scene;
  const std::string longer(limits::name_length + 1, 'x');
  const auto find = [&](auto change) {
    v1::FindActor message;
    change(message);
    std::string said;
    scene.core.find(message, BrokerAnswer<FoundActor>{[&](const Result<FoundActor>& found) {
                      said = found ? "found" : found.error().message();
                    }});
    return said;
  };
  CHECK(find([&](v1::FindActor& message) { message.set_name(longer); })
        == "the actor: name has 129 characters: at most 128 are allowed");
  CHECK_THAT(find([&](v1::FindActor& message) { message.set_name_space(longer); }), Contains("at most 128"));
  CHECK_THAT(find([&](v1::FindActor& message) { message.mutable_handle()->set_name(longer); }),
             Contains("at most 128"));
  CHECK_THAT(find([&](v1::FindActor& message) { message.mutable_handle()->set_type(longer); }),
             Contains("at most 128"));
  CHECK(code_of(scene.kill(longer, 0, ann)) == Errc::invalid_argument);
}
