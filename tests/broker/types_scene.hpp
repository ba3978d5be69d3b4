// A broker's core with nodes that have different types of tasks and actors.
#pragma once

#include <broker/core_scene.hpp>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace broker_test {

inline v1::TypeCatalog catalog(const std::vector<std::string>& tasks, const std::vector<std::string>& actors) {
  v1::TypeCatalog types;
  for (const auto& name : tasks)
    types.add_tasks()->set_name(name);
  for (const auto& name : actors)
    types.add_actors()->set_name(name);
  return types;
}

/// A broker with a client, and nodes with types.
struct TypesScene : Scene {
  explicit TypesScene(BrokerOptions options = {}) : Scene(std::move(options)) {
    greet(1);
  }

  std::uint64_t add(const std::string& name, std::uint64_t agent, const std::optional<v1::TypeCatalog>& types,
                    const std::vector<v1::HeldLease>& held = {}) {
    v1::RegisterNode message;
    message.mutable_node()->set_name(name);
    message.mutable_node()->set_cpu_units(100'000);
    message.set_agent(agent);
    if (types)
      *message.mutable_types() = *types;
    for (const auto& lease : held)
      *message.add_held() = lease;
    core.add_node(message, std::make_shared<Somebody>(),
                  BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
    return world.last_peer;
  }

  /// Asks for a lease for tasks of this type. @returns the answer so far; nothing: there is none.
  std::shared_ptr<std::optional<Error>> acquire(const std::string& task, std::int64_t cpu_units = 10'000,
                                                std::uint64_t group = 0) {
    v1::AcquireLease message;
    message.set_client(1);
    message.set_client_request(++last_request);
    message.mutable_request()->set_task(task);
    message.mutable_request()->set_cpu_units(cpu_units);
    message.mutable_request()->set_group(group);
    auto error = std::make_shared<std::optional<Error>>();
    core.acquire(message, {}, BrokerAnswer<Grant>{[error](const Result<Grant>& grant) {
                   if (!grant)
                     *error = grant.error();
                 }});
    return error;
  }

  static v1::SpawnActor actor(const std::string& type, const std::string& name, int restarts = 5) {
    auto message = actor_of(1, name);
    message.mutable_spec()->set_type(type);
    message.mutable_spec()->set_max_restarts(restarts);
    message.mutable_request()->set_cpu_units(10'000);
    return message;
  }

  /// Asks for an actor. @returns the answer so far.
  std::shared_ptr<std::optional<Error>> spawn_error(v1::SpawnActor message) {
    message.set_client_request(++last_request);
    auto error = std::make_shared<std::optional<Error>>();
    core.spawn_actor(message, {}, {}, BrokerAnswer<FoundActor>{[error](const Result<FoundActor>& found) {
                       if (!found)
                         *error = found.error();
                     }});
    return error;
  }

  /// A node's programs have changed so often, and have these types now.
  void renew(const std::string& name, std::uint64_t agent, std::uint64_t programs, const v1::TypeCatalog& types) {
    v1::NodePrograms message;
    message.set_node(name);
    message.set_agent(agent);
    message.set_programs(programs);
    *message.mutable_types() = types;
    core.programs_changed(message);
  }

  [[nodiscard]] std::string queue_reason() const {
    const auto state = core.state({});
    return state.queue_size() == 1 ? state.queue(0).reason() : fmt::format("{} wait", state.queue_size());
  }

  const v1::TypeCatalog plain = catalog({"echo"}, {"counter"});
  const v1::TypeCatalog full = catalog({"echo", "acme.blur"}, {"counter", "acme.model"});
};

} // namespace broker_test
