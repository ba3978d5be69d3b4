// The broker's core alone: names that a terminal would obey do not come to those who look at the cluster.
#include <gpuactors/broker/core/printable.hpp>

#include <broker/types_scene.hpp>

using namespace broker_test;

namespace {

const std::string evil = "a\x1b[2J";

/// Whether anything that the broker shows has it.
bool is_shown(const TypesScene& scene, const std::string& words) {
  v1::GetState message;
  message.set_events_from(1);
  message.set_ended(100);
  return scene.core.state(message).SerializeAsString().find(words) != std::string::npos;
}

} // namespace

TEST_CASE("control characters become spaces, and nothing else changes", "[broker][core]") {
  CHECK(printable("a\nb\x7f") == "a b ");
  CHECK(printable("a\xc2\x9b[2J") == "a  [2J");
  CHECK(printable("gr\xc3\xbc\xc3\x9f \xc2\xa0 \xc2") == "gr\xc3\xbc\xc3\x9f \xc2\xa0 \xc2");
  CHECK(printable("").empty());
}

TEST_CASE("an actor that is refused for its names leaves neither an event nor an end", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  const auto refusal = [&](auto change) {
    auto message = TypesScene::actor("counter", "a");
    change(message);
    const auto error = scene.spawn_error(message);
    return error->value_or(Error{Errc::internal, "it was not refused"}).message();
  };
  CHECK(refusal([](v1::SpawnActor& message) { message.mutable_spec()->set_name(evil); })
        == "the actor: name has a control character: use printable ones");
  CHECK(refusal([](v1::SpawnActor& message) { message.mutable_spec()->set_name_space(evil); })
        == "the actor's name space: name has a control character: use printable ones");
  CHECK(refusal([](v1::SpawnActor& message) { message.mutable_request()->set_name(evil); })
        == "the actor's lease: name has a control character: use printable ones");
  CHECK(refusal([](v1::SpawnActor& message) { message.mutable_spec()->set_type(evil); }).find("is no name for a type")
        != std::string::npos);
  // Not even the one that was named well has been spawned.
  CHECK(scene.world.starts.empty());
  CHECK_FALSE(is_shown(scene, evil));
  CHECK(scene.last_end().empty());
  CHECK(scene.count("rejected") == 0);
  // Its name is free.
  scene.spawn(TypesScene::actor("counter", "a"));
}

TEST_CASE("a placement group or a task that is refused for its name is not shown by it", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  v1::SubmitGroup group;
  group.set_client(1);
  group.set_client_request(1'000);
  group.set_name(evil);
  group.add_bundles()->set_cpu_units(10'000);
  std::string said;
  scene.core.submit_group(group, {}, BrokerAnswer<v1::GroupInfo>{[&](const Result<v1::GroupInfo>& placed) {
                            said = placed ? "placed" : placed.error().message();
                          }});
  CHECK(said == "the placement group: name has a control character: use printable ones");
  v1::AcquireLease task;
  task.set_client(1);
  task.set_client_request(1'001);
  task.mutable_request()->set_name(evil);
  task.mutable_request()->set_cpu_units(10'000);
  scene.core.acquire(task, {}, BrokerAnswer<Grant>{[&](const Result<Grant>& grant) {
                       said = grant ? "granted" : grant.error().message();
                     }});
  CHECK(said == "name has a control character: use printable ones");
  CHECK_FALSE(is_shown(scene, evil));
}

TEST_CASE("what clients call themselves is shown on one line", "[broker][core]") {
  TypesScene scene;
  v1::Hello hello;
  hello.set_client(7);
  hello.set_name(evil);
  must(scene.core.hello(hello, {}, std::make_shared<Somebody>()));
  CHECK_FALSE(is_shown(scene, evil));
  CHECK(is_shown(scene, "a [2J"));
}
