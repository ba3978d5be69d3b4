#include "model_version.hpp"

#include "memory_file.hpp"
#include "network_description.hpp"

#include <apps/nn/checkpoint.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace serve {

using gpuactors::Cluster;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::Shared;
using gpuactors::Tensor;

namespace {

Result<Shared<Tensor>> put_bytes(Cluster& cluster, MemoryFile& file) {
  GPUACTORS_LET(bytes, file.bytes());
  return cluster.put(bytes, {static_cast<std::int64_t>(bytes.size())});
}

/// The bytes of a file, and as a network's checkpoint the rows that a batch of it may have.
struct ModelFile {
  Shared<Tensor> bytes;
  std::uint64_t max_rows = 0;
};

/// Copies the file, and looks at the copy only, so that a file that is being replaced cannot be half one and half the
/// other.
Result<ModelFile> read_checkpoint(Cluster& cluster, const std::string& path) {
  GPUACTORS_LET(copy, MemoryFile::copy_of(path));
  auto spec = nn::read_spec(copy.path());
  if (!spec) {
    auto sentence = spec.error().message();
    for (auto at = sentence.find(copy.path()); at != std::string::npos; at = sentence.find(copy.path()))
      sentence.replace(at, copy.path().size(), path);
    if (sentence.find(path) == std::string::npos)
      sentence = fmt::format("{}: {}", path, sentence);
    return gpuactors::fail(spec.error().code(), std::move(sentence));
  }
  const auto facts = read_facts(describe_network(*spec));
  if (!facts)
    return gpuactors::fail(facts.error().code(), fmt::format("{}: {}", path, facts.error().message()));
  GPUACTORS_LET(shared, put_bytes(cluster, copy));
  return ModelFile{std::move(shared), facts->max_rows};
}

/// The file of a network, or one that is its actor's affair.
Result<ModelFile> read_file(Cluster& cluster, const ModelConfig& config) {
  if (config.actor.empty())
    return read_checkpoint(cluster, config.file);
  ModelFile file;
  file.max_rows = config.max_batch;
  if (config.file.empty())
    return file;
  GPUACTORS_LET(copy, MemoryFile::copy_of(config.file));
  GPUACTORS_LET(shared, put_bytes(cluster, copy));
  file.bytes = std::move(shared);
  return file;
}

gpuactors::Options resources_of(const ModelConfig& config) {
  gpuactors::Options resources;
  resources.gpus = config.gpus;
  resources.memory_bytes = config.memory_bytes;
  resources.spread = true;
  resources.isolation = config.isolation;
  resources.labels.insert(config.labels.begin(), config.labels.end());
  return resources;
}

/// As many rows as were asked for, as far as one batch and the replicas take them.
batching::QueueLimits queue_limits(const ModelConfig& config, const ModelFacts& facts) {
  batching::QueueLimits limits;
  if (facts.generative) {
    limits.max_batch = 1;
    limits.max_requests = limits.max_rows = config.max_queue;
    limits.max_bytes = queue_bytes;
    return limits;
  }
  limits.max_batch = std::min<std::uint64_t>(config.max_batch, facts.max_rows);
  limits.max_requests = config.max_queue;
  limits.max_rows = std::max<std::uint64_t>(queue_bytes / facts.row_in_bytes, limits.max_batch);
  limits.max_delay = config.max_delay;
  if (facts.takes_texts) {
    limits.max_batch_bytes = facts.max_bytes;
    limits.max_bytes = queue_bytes;
  }
  return limits;
}

DispatcherOptions dispatcher_options(const ModelConfig& config, ModelFacts facts) {
  const auto scaling = config.scaling();
  DispatcherOptions options;
  options.limits = queue_limits(config, facts);
  options.ahead = config.ahead;
  options.max_running =
      facts.max_running > 0 ? std::min<std::uint64_t>(config.max_running, facts.max_running) : config.max_running;
  options.fills = scaling.min_replicas < scaling.max_replicas;
  options.sequences.memory =
      facts.sequences == wire::SEQUENCE_MEMORY_CACHE ? batching::Memory::cache : batching::Memory::state;
  options.sequences.most = config.max_sequences;
  options.sequences.idle = config.sequence_idle;
  options.wanted_replicas = scaling.min_replicas;
  options.replica_wait = config.replica_wait;
  options.facts = std::move(facts);
  return options;
}

ReplicaKind kind_of(const ModelConfig& config, const ModelFile& file) {
  ReplicaKind kind;
  kind.type = config.actor.empty() ? network_type : config.actor;
  kind.config.set_model(config.name);
  if (!config.file.empty())
    *kind.config.mutable_file() = file.bytes.ref();
  kind.config.mutable_settings()->insert(config.settings.begin(), config.settings.end());
  kind.config.set_max_rows(static_cast<std::int64_t>(std::min<std::uint64_t>(config.max_batch, file.max_rows)));
  kind.config.set_max_running(static_cast<std::int64_t>(config.max_running));
  kind.config.set_sequence_idle_ms(std::chrono::ceil<std::chrono::milliseconds>(config.sequence_idle).count());
  kind.resources = resources_of(config);
  kind.start_timeout = config.start_timeout;
  return kind;
}

Result<std::string> mark_of(const ReplicaKind& kind, const Shared<Tensor>& file) {
  std::span<const std::uint8_t> bytes;
  if (file) {
    GPUACTORS_LET(all, file.host<std::uint8_t>());
    bytes = all;
  }
  return kind_mark(kind.type, kind.config, kind.resources, std::as_bytes(bytes));
}

/// At least one, and whether the server before has left them.
struct FirstReplicas {
  std::vector<Started> there;
  bool found = false;
};

/// Those that the server before has left, or one that is started.
Result<FirstReplicas> first_replicas(ReplicaStarter& starter, const LoadOptions& how) {
  const auto one_mark = starter.kind().lasting && starter.kind().lasting->mark == how.spared;
  if (how.takes_over && !(one_mark && how.comes_second)) {
    GPUACTORS_LET(left, starter.take_over(how.longest_silence, one_mark ? "" : how.spared));
    if (!left.empty()) {
      how.notice(fmt::format("{}: takes over {} of deployment {}",
                             title_of(starter.kind().config.model(), starter.kind().config.version()),
                             left.size() == 1 ? "1 replica" : fmt::format("{} replicas", left.size()), how.deployment));
      return FirstReplicas{std::move(left), true};
    }
  }
  auto spawned = starter.spawn(how.wait);
  if (!spawned && spawned.error().code() == Errc::no_capacity && how.make_first_room())
    spawned = starter.spawn(how.wait);
  if (!spawned)
    return gpuactors::fail(spawned.error());
  FirstReplicas first;
  first.there.push_back(std::move(*spawned));
  return first;
}

} // namespace

Result<std::unique_ptr<ModelVersion>> ModelVersion::load(Cluster& cluster, const ModelConfig& config,
                                                         std::uint64_t number, const LoadOptions& how) {
  const auto network = config.actor.empty();
  GPUACTORS_LET(file, read_file(cluster, config));
  std::unique_ptr<ModelVersion> version{new ModelVersion};
  auto kind = kind_of(config, file);
  kind.config.set_version(std::to_string(number));
  kind.resources.wait_for_nodes = how.wait_for_nodes;
  version->file_ = std::move(file.bytes);
  if (!how.deployment.empty()) {
    GPUACTORS_LET(mark, mark_of(kind, version->file_));
    version->mark_ = mark;
    kind.lasting = LastingNames{how.deployment, config.name, std::move(mark)};
  }
  auto starter = std::make_unique<ReplicaStarter>(cluster, how.bell, kind);
  std::optional<bool> generative = false;
  if (network) {
    GPUACTORS_TRY(starter->find_type());
  } else {
    GPUACTORS_LET(checked, starter->check_type());
    generative = checked;
  }
  GPUACTORS_LET(first, first_replicas(*starter, how));
  // By now a node has the type.
  if (!generative) {
    auto checked = starter->check_type();
    if (!checked) {
      starter->kill({first.there.front().actor});
      return gpuactors::fail(checked.error());
    }
    generative = *checked;
  }
  GPUACTORS_TRY(
      version->serve(std::move(starter), std::move(first.there), first.found, config, generative.value_or(false), how));
  return version;
}

Result<std::string> ModelVersion::mark_for(Cluster& cluster, const ModelConfig& config) {
  GPUACTORS_LET(file, read_file(cluster, config));
  return mark_of(kind_of(config, file), file.bytes);
}

Result<void> ModelVersion::serve(std::unique_ptr<ReplicaStarter> starter, std::vector<Started> there, bool found,
                                 const ModelConfig& config, bool generative, const LoadOptions& how) {
  std::vector<gpuactors::ActorRef> unfit;
  auto facts = starter->describe_first(there.front().actor, generative);
  while (!facts && there.size() > 1) {
    unfit.push_back(there.front().actor);
    there.erase(there.begin());
    facts = starter->describe_first(there.front().actor, generative);
  }
  if (!facts)
    unfit.push_back(there.front().actor);
  starter->kill(unfit);
  if (!facts)
    return gpuactors::fail(facts.error());
  facts->name = config.name;
  facts->version = starter->kind().config.version();
  facts->title = title_of(facts->name, facts->version);
  facts->platform = config.actor.empty() ? "gpuactors_nn" : "gpuactors_actor";
  auto dispatcher =
      Dispatcher::start(dispatcher_options(config, std::move(*facts)), [bell = how.bell] { bell->ring(); });
  if (!dispatcher) {
    // What was found is not to blame, and is there for the next try.
    if (!found)
      starter->kill({there.front().actor});
    return gpuactors::fail(dispatcher.error());
  }
  dispatcher_ = std::move(*dispatcher);
  ReplicaOptions options;
  options.notice = how.notice;
  options.nodes = how.nodes;
  options.longest_silence = how.longest_silence;
  options.start_timeout = config.start_timeout;
  options.ahead = config.ahead;
  options.numbers_only = config.actor.empty();
  options.scaling = config.scaling();
  options.found = found;
  options.initial = std::clamp(std::max(config.replicas, how.replicas_before), options.scaling.min_replicas,
                               options.scaling.max_replicas);
  options.make_room = how.make_room;
  options.room_wait = how.wait;
  GPUACTORS_LET(replicas,
                ReplicaSet::start(std::move(starter), std::move(there), dispatcher_, how.bell, std::move(options)));
  replicas_ = std::move(replicas);
  return {};
}

ModelVersion::~ModelVersion() {
  end(gpuactors::TimePoint{});
}

void ModelVersion::end(gpuactors::TimePoint until, bool sequences_end, bool replicas_stay) {
  if (dispatcher_ != nullptr)
    dispatcher_->close(until, sequences_end);
  if (replicas_ != nullptr)
    replicas_->stop(replicas_stay);
}

} // namespace serve
