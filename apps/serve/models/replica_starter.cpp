#include "replica_starter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace serve {

using gpuactors::ActorRef;
using gpuactors::Clock;
using gpuactors::deadline_after;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

/// A method that a replica must have.
struct WantedMethod {
  std::string_view name;
  std::string_view input;
  std::string_view output;
  bool streamed = false;
};

template <class In, class Out>
WantedMethod wanted(std::string_view name, bool streamed = false) {
  return {name, In::descriptor()->full_name(), Out::descriptor()->full_name(), streamed};
}

std::string form_of(const WantedMethod& method) {
  return fmt::format("{}: {} -> {}{}", method.name, method.input, method.streamed ? "stream of " : "", method.output);
}

template <class... Args>
gpuactors::Failure cannot_serve(const gpuactors::v1::ActorDescription& actor, fmt::format_string<Args...> format,
                                Args&&... args) {
  return fail(Errc::invalid_argument, fmt::format("actor type {} cannot be served: {}", actor.name(),
                                                  fmt::format(format, std::forward<Args>(args)...)));
}

bool has_method(const gpuactors::v1::ActorDescription& actor, std::string_view name) {
  return std::any_of(actor.methods().begin(), actor.methods().end(),
                     [name](const auto& method) { return method.name() == name; });
}

Result<void> check_method(const gpuactors::v1::ActorDescription& actor, const WantedMethod& wanted) {
  for (const auto& method : actor.methods()) {
    if (method.name() != wanted.name)
      continue;
    if (method.input() == wanted.input && method.output() == wanted.output && method.streamed() == wanted.streamed)
      return {};
    return cannot_serve(actor, "a method {} is needed, and its method is {} -> {}{}", form_of(wanted), method.input(),
                        method.streamed() ? "stream of " : "", method.output());
  }
  std::vector<std::string_view> names;
  for (const auto& method : actor.methods())
    names.push_back(method.name());
  return cannot_serve(actor, "a method {} is needed, and it has {}", form_of(wanted),
                      names.empty() ? "no methods" : fmt::format("only {}", fmt::join(names, ", ")));
}

} // namespace

ReplicaStarter::ReplicaStarter(gpuactors::Cluster& cluster, std::shared_ptr<KeeperBell> bell, ReplicaKind kind)
  : cluster_(cluster), bell_(std::move(bell)), kind_(std::move(kind)) {
  // nop
}

Result<std::optional<gpuactors::v1::ActorDescription>> ReplicaStarter::find_type() {
  using Found = std::optional<gpuactors::v1::ActorDescription>;
  GPUACTORS_LET(types, await(cluster_.described_types_async(kind_.type)));
  const auto actor = types.find_actor(kind_.type);
  if (actor)
    return Found{**actor};
  const bool is_empty = types.catalog().tasks().empty() && types.catalog().actors().empty();
  if (is_empty || !kind_.resources.wait_for_nodes)
    return Found{};
  return fail(actor.error());
}

Result<std::optional<bool>> ReplicaStarter::check_type() {
  GPUACTORS_LET(found, find_type());
  if (!found)
    return std::optional<bool>{};
  const auto& actor = *found;
  if (const auto& config = wire::ReplicaConfig::descriptor()->full_name(); actor.config() != config)
    return cannot_serve(actor, "it is configured with a {}, not with a {}", actor.config(), config);
  const auto generative = has_method(actor, generate_method);
  if (generative && has_method(actor, infer_method))
    return cannot_serve(actor, "it has both methods {} and {}, and a model has one of them", infer_method,
                        generate_method);
  GPUACTORS_TRY(check_method(actor, wanted<google::protobuf::Empty, wire::ReplicaDescription>(describe_method)));
  if (generative) {
    GPUACTORS_TRY(check_method(actor, wanted<wire::GenerateRequest, wire::GenerateReply>(generate_method, true)));
  } else {
    GPUACTORS_TRY(check_method(actor, wanted<wire::ReplicaBatch, wire::ReplicaReply>(infer_method)));
  }
  return std::optional{generative};
}

Result<std::vector<Started>> ReplicaStarter::take_over(Duration patience, std::string_view spared) {
  if (!kind_.lasting)
    return std::vector<Started>{};
  GPUACTORS_LET(state, await(cluster_.state_async()));
  const auto names = replicas_of(state, kind_.lasting->deployment);
  // All at once: those that are stuck take as long as one of them.
  std::vector<gpuactors::Future<void>> ends;
  const auto end = [&](const gpuactors::ActorKey& actor) { ends.push_back(order_end(actor)); };
  struct Left {
    std::uint64_t id = 0;
    std::string name;
    gpuactors::Future<ActorRef> found;
  };
  std::vector<Left> left;
  for (const auto& name : names) {
    if (!kind_.lasting->is_of_model(name) || (!spared.empty() && kind_.lasting->has_mark(name, spared)))
      continue;
    if (const auto id = kind_.lasting->id_of(name)) {
      left.push_back({*id, name, cluster_.find_async(name, patience)});
      last_id_ = std::max(last_id_.load(), *id);
    } else {
      end(name); // of another kind
    }
  }
  std::vector<std::pair<Started, gpuactors::Future<wire::ReplicaDescription>>> asked;
  for (auto& one : left) {
    auto actor = await(std::move(one.found));
    if (bell_->stopped())
      return fail(Errc::unavailable, "the server ends");
    if (!actor) {
      end(one.name);
      continue;
    }
    auto answer = actor->call<wire::ReplicaDescription>(describe_method, google::protobuf::Empty{}, patience);
    asked.emplace_back(Started{one.id, std::move(*actor)}, std::move(answer));
  }
  std::vector<Started> alive;
  for (auto& [replica, answer] : asked) {
    if (await(std::move(answer)))
      alive.push_back(std::move(replica));
    else if (!bell_->stopped())
      end(replica.actor);
  }
  const auto until = deadline_after(Clock::now(), kind_.end_wait);
  while (!bell_->stopped() && Clock::now() < until
         && gpuactors::wait(ends, ends.size(), std::chrono::milliseconds{100}).size() < ends.size()) {
    // they end
  }
  return alive;
}

Result<Started> ReplicaStarter::spawn(Duration queue_timeout) {
  auto resources = kind_.resources;
  resources.detached = kind_.lasting.has_value();
  resources.queue_timeout = queue_timeout;
  resources.spawn_timeout = queue_timeout + kind_.start_timeout;
  // Another server of this cluster may have a model of this name.
  constexpr int most_names = 1'000;
  for (int i = 0;; ++i) {
    const auto id = ++last_id_;
    resources.name = kind_.lasting ? kind_.lasting->name(id)
                                   : fmt::format("{}/{}/{}", kind_.config.model(), kind_.config.version(), id);
    auto actor = await(cluster_.spawn_async(kind_.type, kind_.config, resources));
    if (actor)
      return Started{id, std::move(*actor)};
    if (actor.error().code() != Errc::already_exists || i == most_names)
      return fail(actor.error());
  }
}

Result<ModelFacts> ReplicaStarter::describe_first(const ActorRef& actor, bool generative) const {
  const auto description = describe(actor);
  if (!description)
    return fail(description.error().code(), fmt::format("actor type {} does not describe its model: {}", kind_.type,
                                                        description.error().message()));
  auto facts = read_facts(*description, generative);
  if (!facts)
    return fail(facts.error().code(), fmt::format("actor type {} describes a model that cannot be served: {}",
                                                  kind_.type, facts.error().message()));
  return facts;
}

Result<wire::ReplicaDescription> ReplicaStarter::describe(const ActorRef& actor) const {
  return await(actor.call<wire::ReplicaDescription>(describe_method, google::protobuf::Empty{}, kind_.start_timeout));
}

void ReplicaStarter::kill(const std::vector<ActorRef>& actors) {
  if (bell_->replicas_stay())
    return;
  std::vector<gpuactors::Future<void>> ends;
  for (const auto& actor : actors)
    ends.push_back(order_end(actor));
  // Whether one had ended by itself does not matter; one that is stuck, or whose broker is away, goes on ending.
  (void)gpuactors::wait(ends, ends.size(), kind_.end_wait);
}

gpuactors::Future<void> ReplicaStarter::order_end(const gpuactors::ActorKey& actor) {
  // Nobody has it in the books any more who would order that again.
  gpuactors::KillOptions options;
  options.timeout = Duration::max();
  return cluster_.kill_async(actor, options);
}

} // namespace serve
