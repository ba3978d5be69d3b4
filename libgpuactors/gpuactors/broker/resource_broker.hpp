// ResourceBroker: the actor that owns the ledger. It places requests, has agents start what they asked for, keeps the
// records of actors, and gives resources back only when their memory is really free.
#pragma once

#include <gpuactors/broker/event_log.hpp>
#include <gpuactors/broker/recorded_ledger.hpp>
#include <gpuactors/wire/errors.hpp>
#include <gpuactors/wire/messages.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// An actor shell around `Ledger`: messages become ledger calls, events become answers and orders to agents.
///
/// A lease goes: granted -> starting (its agent was told) -> held -> ending (its agent was told) -> released, when the
/// agent reports that its holder has ended and its memory is back. An actor goes: waiting -> starting -> alive ->
/// stopping -> dead, or back to waiting while it has restarts left. Event-based; never blocks.
class ResourceBroker : public BrokerHandle::base {
public:
  /// @param recording where the calls to its ledger are written as a scenario for `run_plan`; null: nowhere.
  explicit ResourceBroker(caf::actor_config& config, std::shared_ptr<std::ostream> recording = nullptr);

  BrokerHandle::behavior_type make_behavior() override;

  /// Lets go of all handles: broker and agents hold each other.
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.broker";
  }

private:
  using GrantPromise = caf::typed_response_promise<v1::Granted, caf::strong_actor_ptr, caf::strong_actor_ptr>;
  using SpawnPromise = caf::typed_response_promise<v1::ActorInfo, caf::strong_actor_ptr, caf::strong_actor_ptr>;
  using GroupPromise = caf::typed_response_promise<v1::GroupInfo>;
  using DonePromise = caf::typed_response_promise<v1::Done>;

  struct NodeRecord {
    v1::Node node;
    AgentHandle agent;
  };

  /// A request for tasks that is not granted yet, or whose runner is being started.
  struct TaskRequest {
    caf::strong_actor_ptr client;
    std::uint64_t client_request = 0;
    /// Who asked for what: leases with another key make way for it.
    std::string key;
    GroupId group;
    GrantPromise promise;
  };

  /// A placement group, waiting or placed.
  struct GroupRecord {
    std::string name;
    std::optional<GroupPromise> placed;
    /// Not empty: it is ending, and who waits for that.
    std::vector<DonePromise> removers;
  };

  struct TaskLease {
    caf::strong_actor_ptr client;
    std::string key;
    bool reclaimed = false;
    /// Its end was ordered.
    bool ending = false;
  };

  enum class ActorState : std::uint8_t { waiting, starting, alive, stopping };

  struct ActorRecord {
    ActorId id;
    v1::ActorSpec spec;
    Payload config;
    v1::ResourceRequest request;
    ActorState state = ActorState::waiting;
    int restarts = 0;
    bool no_restart = false;
    RequestId waiting_for;
    std::optional<v1::Lease> lease;
    std::uint32_t pid = 0;
    caf::strong_actor_ptr handle;
    caf::strong_actor_ptr control;
    std::optional<SpawnPromise> spawned;
    std::vector<SpawnPromise> seekers;
    std::vector<DonePromise> killers;
  };

  // -- handlers --------------------------------------------------------------------------------

  caf::result<v1::Done> add_node(const v1::RegisterNode& message, const caf::strong_actor_ptr& agent);
  caf::result<v1::Granted, caf::strong_actor_ptr, caf::strong_actor_ptr> acquire(const v1::AcquireLease& message,
                                                                                 const caf::strong_actor_ptr& client);
  void cancel(const v1::CancelAcquire& message, const caf::strong_actor_ptr& client);
  void release(const v1::ReleaseLease& message);
  caf::result<v1::ActorInfo, caf::strong_actor_ptr, caf::strong_actor_ptr> spawn_actor(const v1::SpawnActor& message,
                                                                                       const Payload& config);
  caf::result<v1::ActorInfo, caf::strong_actor_ptr, caf::strong_actor_ptr> find(const v1::FindActor& message);
  caf::result<v1::Done> kill(const v1::KillActor& message);
  caf::result<v1::Done> drain(const v1::DrainNode& message);
  caf::result<v1::GroupInfo> submit_group(const v1::SubmitGroup& message);
  caf::result<v1::Done> release_group(const v1::ReleaseGroup& message);
  void lease_ended(const v1::LeaseEnded& message);
  void fail_device(const std::string& node, int index);
  v1::ClusterState state(const v1::GetState& message) const;

  // -- events of the ledger --------------------------------------------------------------------

  void apply(const Ledger::Events& events);
  void apply(Result<Ledger::Events> events, std::string_view what);
  void on_granted(const Event& event);
  void on_refused(const Event& event);
  void on_lost(const Event& event);
  void on_group(const Event& event);
  void make_way(RequestId request);
  void log(const Event& event);
  void schedule_tick();

  // -- leases and actors -----------------------------------------------------------------------

  void start_runner(const Lease& lease, const TaskRequest& request);
  void start_actor(const Lease& lease, ActorRecord& record);
  void end_lease(const Lease& lease, std::uint64_t grace_ms, std::optional<ActorId> actor);
  /// Refuses a request that names a group which does not exist or is ending.
  Result<void> check_group(GroupId group) const;
  void end_group(GroupId id);
  void forget_group(GroupId id, const Error& error);
  v1::GroupInfo info_of(GroupId id, const GroupRecord& record) const;
  void submit_actor(ActorRecord& record);
  void actor_down(ActorId id, const Error& error);
  void forget_actor(ActorId id, const Error& error);
  ActorRecord* find_record(std::string_view name, std::uint64_t id);
  v1::ActorInfo info_of(const ActorRecord& record) const;
  std::optional<TaskRequest> take_task_request(RequestId id);
  v1::Lease to_wire(const Lease& lease) const;

  RecordedLedger ledger_;
  bool recording_failed_ = false;
  EventLog log_;
  std::map<std::string, NodeRecord> nodes_;
  std::map<RequestId, TaskRequest> task_requests_;
  // By the client and its own number for the request.
  std::map<std::pair<const void*, std::uint64_t>, RequestId> client_requests_;
  std::map<RequestId, ActorId> actor_requests_;
  std::map<GroupId, GroupRecord> groups_;
  std::map<LeaseId, TaskLease> task_leases_;
  std::map<LeaseId, ActorId> actor_leases_;
  std::map<ActorId, ActorRecord> actors_;
  std::map<std::string, ActorId, std::less<>> names_;
  std::uint64_t last_request_ = 0;
  std::uint64_t last_actor_ = 0;
  std::uint64_t last_group_ = 0;
  TimePoint tick_due_ = never;
};

} // namespace gpuactors
