// BrokerCore: the broker's state and decisions. It places requests, orders agents to start holders, keeps the records
// of actors, and frees resources only when their memory is really free. It has no actors, threads, clock or files of
// its own: BrokerWorld provides what it needs from outside.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/actor_table.hpp>
#include <gpuactors/broker/core/arrivals.hpp>
#include <gpuactors/broker/core/broker_options.hpp>
#include <gpuactors/broker/core/client_record.hpp>
#include <gpuactors/broker/core/early_calls.hpp>
#include <gpuactors/broker/core/emptying_pace.hpp>
#include <gpuactors/broker/core/ended_actors.hpp>
#include <gpuactors/broker/core/event_log.hpp>
#include <gpuactors/broker/core/followers.hpp>
#include <gpuactors/broker/core/group_record.hpp>
#include <gpuactors/broker/core/kept_leases.hpp>
#include <gpuactors/broker/core/node_record.hpp>
#include <gpuactors/broker/core/offspring.hpp>
#include <gpuactors/broker/core/recent_kills.hpp>
#include <gpuactors/broker/core/recorded_ledger.hpp>
#include <gpuactors/broker/core/reminders.hpp>
#include <gpuactors/broker/core/rooms.hpp>
#include <gpuactors/broker/core/standstill.hpp>
#include <gpuactors/broker/core/state_keeper.hpp>
#include <gpuactors/broker/core/task_records.hpp>
#include <gpuactors/broker/core/turns.hpp>
#include <gpuactors/broker/core/world.hpp>

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gpuactors {

class Allowance;
class StateRoom;

/// Turns messages of nodes and clients into calls of the ledger, and the ledger's events into answers and orders.
///
/// States of a lease: granted -> starting (its agent was told) -> held -> ending (its agent was told) -> released, when
/// the agent reports that the holder has ended and its memory is free. States of an actor: waiting -> starting -> alive
/// -> stopping -> dead, or back to waiting while it has restarts left. A node is removed when the connection to its
/// agent is lost, and the work of a client ends when the connection to its port is lost and its grace is over. One
/// thread; never blocks. Each public function takes one message of wire/messages.hpp or one event of the world;
/// control.proto documents the messages and their errors.
class BrokerCore {
public:
  using DoneAnswer = BrokerAnswer<void>;
  using GrantAnswer = BrokerAnswer<Grant>;
  using FindAnswer = BrokerAnswer<FoundActor>;
  using GroupAnswer = BrokerAnswer<v1::GroupInfo>;
  using TypesAnswer = BrokerAnswer<v1::TypeCatalog>;

  /// `world` must outlive the core.
  BrokerCore(BrokerWorld& world, BrokerOptions options);

  /// Call first. Reads the store and waits for nodes and clients of an earlier broker, if `BrokerOptions::settle`
  /// allows.
  void start();

  /// @returns `invalid_argument` if those of the options are too many, together with those that their store has.
  static Result<void> check_quotas(const BrokerOptions& options);

  /// Writes what is still unwritten. Call last.
  void finish();

  // -- events of the world ---------------------------------------------------------------------

  void wake(Wake what);
  void peer_down(std::uint64_t peer);

  // -- messages of nodes -----------------------------------------------------------------------

  void add_node(v1::RegisterNode message, const ContactPtr& agent, DoneAnswer answer);
  void held_ahead(const v1::HeldAhead& message);
  void lease_started(const v1::LeaseStarted& message, HolderContacts contacts = {});
  void lease_ended(const v1::LeaseEnded& message);
  void stuck(const v1::LeaseStuck& message);
  void saved(const v1::ActorSaved& message);
  void used(const v1::HolderUsage& message);
  void devices_failed(const v1::DeviceFault& message);
  void programs_changed(const v1::NodePrograms& message);
  void devices_used(const v1::DeviceUse& message);

  // -- messages of clients ---------------------------------------------------------------------

  // The caller is whoever the certificate of the message's connection names. Clients end only what their name has
  // started; what only administrators may do does not get here from others.

  /// Returns whether the caller may speak for the client of this number: nobody else does, or has anything under it.
  [[nodiscard]] bool speaks_for(std::uint64_t client, const Caller& caller) const;
  Result<void> hello(const v1::Hello& message, const Caller& caller, const ContactPtr& port);
  void goodbye(const v1::Goodbye& message);
  void acquire(const v1::AcquireLease& message, const Caller& caller, GrantAnswer answer);
  void cancel(const v1::CancelAcquire& message);
  void release(const v1::ReleaseLease& message, const Caller& caller);
  void spawn_actor(const v1::SpawnActor& message, const Caller& caller, const Payload& config, FindAnswer answer);
  /// Answers when the actor lives, or has ended if that is asked for.
  void find(const v1::FindActor& message, FindAnswer answer);
  void kill(const v1::KillActor& message, const Caller& caller, DoneAnswer answer);
  void submit_group(const v1::SubmitGroup& message, const Caller& caller, GroupAnswer answer);
  void release_group(const v1::ReleaseGroup& message, const Caller& caller, DoneAnswer answer);
  void withdraw(const v1::Withdraw& message, DoneAnswer answer);
  // What these two return is answered by `answer_when_kept`.
  Result<void> drain(const v1::DrainNode& message);
  Result<void> set_quota(const v1::SetQuota& message);
  /// Delivers success only when the store has what was changed.
  void answer_when_kept(DoneAnswer answer, Result<void> result);
  /// @returns `unsupported` if the broker has no store, `unavailable` if the other one has a later state,
  ///          `already_exists` if another one stands by.
  Result<v1::StateChanges> follow(const v1::FollowState& message);
  /// Another broker serves.
  /// @returns `unavailable` if this one has to end for it, with what to do. Started again, it asks that one first.
  Result<void> give_way_to(const v1::TakenOver& message);
  [[nodiscard]] v1::ClusterState state(const v1::GetState& message) const;
  void types(const v1::GetTypes& message, TypesAnswer answer);

private:
  using ClientId = std::uint64_t;

  static constexpr std::uint64_t stop_grace_ms = to_milliseconds(limits::stop_grace);

  /// The node or the client at the other end of a watched connection.
  struct Peer {
    std::string node;
    ClientId client = 0;
  };

  struct Move {
    RequestId request;
    ActorRecord* actor;
    /// There is no room now, and might be.
    bool crowded = false;
  };

  // -- nodes and clients: peers.cpp -----------------------------------------------------

  void settled();
  /// Refuses one client more than the caller's name may have, and more leases than one client may have.
  [[nodiscard]] Result<void> check_room(const v1::Hello& message, const Caller& caller) const;
  std::uint64_t watch(const ContactPtr& contact, Peer peer);
  /// The same node is back on a new connection: reconciles its leases with those in the ledger.
  void reconcile(const v1::RegisterNode& message);
  /// Writes down what a new node says, or one that returns.
  void describe_registration(NodeRecord& record, const v1::RegisterNode& message, const ContactPtr& agent);
  void hear(const NodeReport& report);
  /// Adds nodes with all leases that they hold, and restores the groups that have bundles on them.
  void admit(std::vector<Arrival> arrivals);
  /// The range of `withdrawn_` that is of `client`.
  [[nodiscard]] auto withdrawals_of(ClientId client) const {
    return std::pair{withdrawn_.lower_bound({client, 0}),
                     withdrawn_.upper_bound({client, std::numeric_limits<std::uint64_t>::max()})};
  }
  /// Takes over what the actor saved while the connection was lost.
  void take_over_saved(const v1::HeldLease& held);
  void drop_node(const std::string& name);
  /// The node is being stopped.
  void node_leaves(const v1::Goodbye& message);
  /// The client's connection is lost.
  void client_down(ClientId id);
  void drop_client(ClientId id);
  void cancel_requests(ClientId id);
  void end_stray_leases(ClientId id, const std::set<LeaseId>& claimed);
  /// Work that has not ended after the grace is ended with its process.
  void tell_agent_to_end(const Lease& lease, std::uint64_t grace_ms = stop_grace_ms);
  /// The same for an order that may have been lost, or that an earlier broker gave.
  void tell_agent_again_to_end(const Lease& lease);

  // -- what nodes bring back: adoption.cpp ---------------------------------------------

  /// Puts a lease that a node holds back into the ledger: where it was, or where the room is that it takes.
  Result<void> restore(Lease& lease);
  void adopt(const v1::HeldLease& held, const v1::Node& node);
  void adopt_actor(const v1::HeldLease& held);
  /// Whether the client was given another actor for the same request later, which has its place already.
  [[nodiscard]] bool has_running_twin(const v1::HeldLease& held) const;
  /// Another actor that has the name of one that a node has brought back; null if there is none.
  [[nodiscard]] ActorRecord* namesake_of(const v1::StartActor& order) const;
  /// Whether another one was given its name, when it had ended or could not be expected any more.
  [[nodiscard]] bool has_lost_name(const v1::StartActor& order) const;
  /// Ends the other one, for an actor that has not lost its name.
  void end_namesake(const v1::StartActor& order);
  /// Ends the actor's life that is known, or the request for one, for a later life that a node has brought.
  void replace_life(ActorRecord& record);
  /// The lease of the life that is known, or that was known last; null if none is known.
  [[nodiscard]] static LeaseId last_lease_of(const ActorRecord& record);

  // -- a broker that stood still: standstill.cpp ----------------------------------------

  /// The broker runs at this moment.
  [[nodiscard]] Standstill::Pulse pulse() const;
  /// If the broker itself stood still for so long that peers took it for dead (its process was stopped, its machine
  /// suspended, or a disk did not answer), their lost connections say nothing about them: gives them time to come back.
  void look_for_standstill();
  /// Moves the deadlines of clients, of first starts and of nodes that are being emptied to the end of that time.
  void grant_more_time();
  /// The connection to a node is lost, and the node has time to come back.
  void node_away(const std::string& name);
  void give_up_away_nodes();

  // -- emptying nodes: drain.cpp --------------------------------------------------------

  /// The node takes new work again.
  Result<void> undrain(const std::string& name);
  /// Drains a node that has come back, as the store says.
  void drain_again(const std::string& name, const v1::StoredNode& stored);
  void keep_drained(const std::string& name);
  void forget_drained(const std::string& name);
  void look_again_at_nodes();
  void empty_nodes();
  /// Makes the holder of a lease leave its node: reclaims a task lease, moves an actor; if `late`, ends what cannot
  /// move.
  void leave(LeaseId id, const std::string& node, bool late);
  /// Reserves the actor's next place, if another node has room for it now.
  bool reserve_elsewhere(ActorRecord& actor, const std::string& node);
  void forget_move(LeaseId lease);
  void give_up_move(ActorRecord& actor);

  // -- owners and quotas: quotas.cpp ----------------------------------------------------

  /// Sets in whose quota a request of the caller needs room; a client may borrow from leases of its own name alone.
  void set_owner(v1::ResourceRequest& request, const Caller& caller) const;
  Result<void> change_quota(const std::string& owner, std::optional<Share> limit);
  /// The owners for whom something waits that their quotas leave no room for now.
  [[nodiscard]] Turns::OverQuotas over_quotas() const;
  /// Reclaims the leases with another key that clients of this owner keep for their next task: nobody else's would
  /// help.
  void make_room_for(const std::string& owner, const std::string& key);
  void add_quotas(v1::ClusterState& state) const;

  // -- reports: reports.cpp --------------------------------------------------------------

  /// @returns `invalid_argument` when the heartbeats and timeouts of the two would make one take the other for dead.
  [[nodiscard]] Result<void> check_pulse(const std::string& who, std::int64_t heartbeat_ms,
                                         std::int64_t link_timeout_ms) const;
  /// What one holder uses and publishes.
  void used(const v1::HolderUsage::Entry& report);
  void tasks_done(const v1::HolderUsage& message);
  /// The node that an agent reports of; null if it is not the one of that name.
  NodeRecord* node_of(const v1::HolderUsage& message);

  // -- devices that fail: faults.cpp ----------------------------------------------------

  /// Fails the devices that a node reports as faulty when it registers.
  void fail_faulty_devices(const std::string& name, const v1::Node& said);
  void fail_device(const std::string& node, int index, const std::string& reason);
  /// Why a lease was lost: its node's lost connection, the fault of one of its devices, or else the ledger's reason.
  [[nodiscard]] std::string why_lost(const Event& event) const;
  /// Why an actor has ended, for people. `told`: what its node says; may be empty.
  [[nodiscard]] static std::string why_ended(const ActorRecord& actor, const std::string& told);

  // -- what is kept over restarts: store.cpp --------------------------------------------

  void load();
  ActorRecord& load_actor(const v1::HeldLease& stored);
  void restore_groups();
  void start_missing_actors();
  /// Whether stored groups have bundles on nodes that have not come back yet.
  [[nodiscard]] bool awaits_nodes() const;
  void keep(ActorRecord& record);
  void keep(GroupId id);
  void look_at_followers();

  // -- types of tasks and actors: types.cpp ----------------------------------------------

  /// The ledger's number of a type; none without a name. @returns `invalid_argument` for what is no name of a type.
  Result<TypeId> type_of(std::string_view kind, const std::string& name);
  /// Refuses an actor for its names, before there is a record or an event of it.
  Result<void> check_names(const v1::SpawnActor& message);
  static Result<void> check_names(const v1::FindActor& message);
  static Result<void> check_names(const v1::KillActor& message);
  /// The node runs other programs, unless they are known: what waits is placed by their types, and tasks that would run
  /// on in leases there ask anew.
  /// @param types null: unknown.
  void renew_programs(const std::string& name, std::uint64_t programs, const v1::TypeCatalog* types);
  /// The node has these types: what was to move there and is of none of them goes on elsewhere.
  void give_up_moves_to(const std::string& name, const v1::TypeCatalog& types);
  /// What the ledger is asked for, for the next life of an actor. @returns why it cannot be asked.
  Result<ResourceRequest> request_for(const ActorRecord& record);

  // -- leases for tasks, and what is taken back: leases.cpp ----------------------------

  void start_runner(const Lease& lease, TaskRequest request);
  std::optional<TaskRequest> take_task_request(RequestId id);
  /// The client's request of this number, as long as it waits; null otherwise.
  TaskRequest* pending_request(const ClientRequest& key);
  TaskLease& add_task_lease(const Lease& lease, ClientId client, std::string key = {});
  /// Removes it here; in the ledger it may still be. @returns nothing if there is none.
  std::optional<TaskLease> take_task_lease(LeaseId id);
  void end_task_lease(LeaseId id);
  /// The holder of a lease that was lost with a device has ended: gives back what was kept of the lease.
  void lost_holder_ended(LeaseId id, std::uint64_t epoch);
  /// The actor of a lease that was lost, if there is one, goes on elsewhere.
  void leave_lost(LeaseId id);
  /// Removes a lease that has ended here from what its client claims: its node may still come back with it.
  void unclaim(ClientId id, LeaseId lease);

  // -- actors: actors.cpp ---------------------------------------------------------------

  /// The error for a name that nobody has: why the last one that had it has ended, or which names are like it.
  [[nodiscard]] Error no_actor(const std::string& name_space, const std::string& name) const;
  [[nodiscard]] std::string why_not_there(const v1::ActorHandle& handle) const;
  /// Whether a node that has not come back yet may bring the actor back.
  [[nodiscard]] bool may_come_back(const std::string& name, std::uint64_t id) const;
  /// Answers early questions for types, and look-ups and kills of actors, as far as those are back now.
  void answer_early();
  /// @param why the reason for people, the beginning of a sentence.
  void kill(ActorRecord& record, std::uint64_t grace_ms, std::string why);
  void submit_actor(ActorRecord& record);
  void start_actor(const Lease& lease, ActorRecord& record);
  /// What its node, and the file, have to know of an actor; without its lease and its configuration.
  static v1::StartActor order_of(const ActorRecord& record);
  void actor_started(ActorRecord& record, const v1::LeaseStarted& message, HolderContacts contacts = {});
  void actor_down(ActorRecord& record, const Error& said, LifeEnd why);
  /// Starts the actor again after a while.
  void pause_actor(ActorRecord& record, Duration pause);
  /// The holder of a lease has ended itself: it is not restarted, whatever else becomes of the lease.
  void note_own_end(const v1::LeaseEnded& message);
  /// What a node that registers tells of an actor that has ended itself there.
  void take_own_end(const v1::OwnEnd& own);
  void forget_earliest_own_ends();
  /// Ends an actor that has ended itself, unless a later life of it is there.
  /// @param also_later whether to end the next life too, because the actor had ended itself when its place was lost.
  void apply_own_end(ActorId id, const v1::LeaseEnded& end, bool also_later = false);
  /// Whether a life under this lease is earlier than one that has ended itself.
  [[nodiscard]] bool is_before_own_end(ActorId id, LeaseId lease) const;
  /// The actor's pause is over, or its first start has taken too long.
  void actor_due(ActorRecord& record);
  void limit_first_start(ActorRecord& record);
  /// The answer to who waits for the end of an actor that is not there any more. @returns `not_found` if it is not
  /// known that it has ended.
  [[nodiscard]] Result<FoundActor> end_of(const v1::FindActor& message) const;
  /// Clears `due` and `first_start_by`, and their reminders.
  void stop_reminding(ActorRecord& record);
  void forget_actor(ActorId id, const Error& error);
  /// Ends the client's request for a name that is still taken. @returns whether there was one.
  bool give_up_heir(const ClientRequest& key);
  void give_up_late_heirs(ActorRecord& record);
  /// @param limit_ms 0: there is no limit.
  [[nodiscard]] TimePoint until_after(std::uint64_t limit_ms) const;
  void answer_with(ActorRecord& record, FindAnswer answer, ClientId client, TimePoint until = never);
  ActorRecord* find_record(const FullName& name, std::uint64_t id);
  v1::ActorInfo info_of(const ActorRecord& record) const;

  // -- what actors and tasks have spawned: offspring.cpp --------------------------------

  /// Refuses what a lease asks for that is not there. Clears what does not end with its spawner.
  template <class Message>
  Result<void> check_spawner(Message& message, bool detached, const Caller& caller) const;
  /// Whether the lease is there, or its node may still bring it.
  [[nodiscard]] bool may_live(const Spawner& spawner) const;
  /// Ends what was spawned under a lease whose holder has ended. `who` names the holder, the beginning of a sentence.
  void end_offspring(LeaseId lease, const std::string& who);
  void end(const Offspring::Members& members, const std::string& who);
  void task_ended(const Spawner& task);
  /// Ends what was spawned under leases of an earlier broker that have not come back.
  void end_orphans();

  // -- placement groups: groups.cpp -----------------------------------------------------

  /// Refuses a request that names a group which does not exist or is ending.
  Result<void> check_group(GroupId group) const;
  void end_group(GroupId id);
  /// A lease has begun or ended that was in a group, or borrowed, perhaps from one in a group: goes on with the ends of
  /// groups.
  void look_at_ending_groups(const Lease& lease);
  void forget_group(GroupId id, const Error& error);
  void on_group(const Event& event);
  v1::GroupInfo info_of(GroupId id, const GroupRecord& record) const;

  // -- events of the ledger, and the state: events.cpp ----------------------------------

  void apply(const Ledger::Events& events);
  void apply(Result<Ledger::Events> events, std::string_view what);
  void on_granted(const Event& event);
  /// Nobody waits for it any more. If it was granted by a call of the ledger whose events are still being applied, that
  /// event gives the lease back.
  void withdraw_from_ledger(RequestId request, std::string_view what);
  /// The same for the request of an actor that waits.
  void withdraw_from_queue(ActorRecord& record, std::string_view what);
  void on_refused(const Event& event);
  void on_lost(const Event& event);
  void make_way(RequestId request);
  void make_way(const Event& pending);
  void take_turns();
  /// For whom leases are to make way.
  struct Demand {
    Turns::Waiting waiting;
    /// Whether anything waits at all, also what no node could serve now.
    bool any = false;
    /// Whether all requests that could be served are tasks with the key of the oldest.
    bool all_alike = true;
  };
  [[nodiscard]] Demand demand() const;
  /// While requests wait, reclaims leases granted since the last turn, so that a client which acquires one lease after
  /// another does not keep the others out.
  void make_way_again();
  /// Whether others wait for whom this lease could make way.
  [[nodiscard]] bool is_wanted(const Lease& lease, const TaskLease& task) const;
  /// Whether a group has bundles without a place.
  [[nodiscard]] bool waits(GroupId id, const GroupRecord& group) const;
  /// Asks a client to give a lease back after the running task.
  void reclaim(LeaseId id, TaskLease& lease);
  void log(const Event& event);
  void wake_for_ledger();
  /// Looks at the actor or client again at `due.at`.
  void remind(const Reminders::Due& due);
  void look_at_due();
  v1::Lease to_wire(const Lease& lease) const;

  // -- the state that others see: state.cpp ---------------------------------------------

  /// Adds what there is now: nodes, devices, leases, actors, groups, clients and the queue.
  void add_present(v1::ClusterState& result, StateRoom& room) const;
  void add_nodes(v1::ClusterState& result, StateRoom& room, Allowance& counts) const;
  void add_actors(v1::ClusterState& result, StateRoom& room, Allowance& counts) const;
  void add_queue(v1::ClusterState& result, StateRoom& room) const;
  /// Adds what there was: events and ended actors.
  void add_past(const v1::GetState& message, v1::ClusterState& result, StateRoom& room) const;

  BrokerWorld& world_;
  const BrokerOptions options_;
  RecordedLedger ledger_;
  bool recording_failed_ = false;
  bool settling_ = false;
  EventLog log_;
  StateKeeper keeper_;
  std::map<std::string, NodeRecord> nodes_;
  std::map<ClientId, ClientRecord> clients_;
  std::map<std::uint64_t, Peer> peers_;
  std::map<RequestId, TaskRequest> task_requests_;
  // By client and the client's number for the request.
  std::map<ClientRequest, RequestId> client_requests_;
  std::map<GroupId, GroupRecord> groups_;
  std::set<GroupId> ending_groups_;
  std::map<ClientRequest, GroupId> submitted_groups_;
  Offspring offspring_;
  // For actors and placement groups of clients, and for leases for tasks that clients have or wait for.
  Rooms rooms_;
  Rooms leases_room_;
  std::map<LeaseId, TaskLease> task_leases_;
  // Those of them that are not reclaimed.
  KeptLeases kept_;
  // The grace in milliseconds of leases whose agents were told to end them.
  std::map<LeaseId, std::uint64_t> graces_;
  ActorTable actors_;
  EndedActors ended_;
  Standstill standstill_;
  Reminders reminders_;
  // Withdrawn requests of clients that are here, for nodes that bring back what was asked for: a bounded number of
  // each.
  std::set<ClientRequest> withdrawn_;
  RecentKills kills_;
  // Actors of an earlier broker that have ended since: their nodes may not know.
  std::set<ActorId> forgotten_;
  // Actors of an earlier broker that have ended themselves, as their nodes tell: the latest such life of each.
  std::map<ActorId, v1::LeaseEnded> own_ends_;
  // With fewer, nothing can be forgotten.
  std::size_t enough_own_ends_ = 0;
  Arrivals arrivals_;
  EarlyCalls early_;
  std::map<GroupId, v1::StoredGroup> stored_groups_;
  std::map<std::string, v1::StoredNode> stored_nodes_;
  /// Brokers that stand by for this one.
  Followers followers_;
  Turns turns_;
  /// Of the certificate of the broker's process, as far as that is known.
  std::optional<v1::CertificateLife> certificate_;
  EmptyingPace emptying_pace_;
  // The request for an actor's next place, while it is being submitted.
  std::optional<Move> move_;
  std::uint64_t last_request_;
  std::uint64_t last_actor_;
  std::uint64_t last_group_;
  std::uint64_t last_peer_ = 0;
  TimePoint ledger_due_ = never; // the time of the ledger's next wake-up
  std::string type_name_;        // of the type that was looked up last
};

} // namespace gpuactors
