// BrokerCore: what the broker knows and decides. It places requests, has agents start what they asked for, keeps the
// records of actors, and gives resources back only when their memory is really free. Without actors, threads, a clock
// and files of its own: what it needs of the world is in BrokerWorld.
#pragma once

#include <gpuactors/broker/core/desired_state.hpp>
#include <gpuactors/broker/core/event_log.hpp>
#include <gpuactors/broker/core/lives.hpp>
#include <gpuactors/broker/core/recorded_ledger.hpp>
#include <gpuactors/broker/core/world.hpp>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace gpuactors {

struct BrokerOptions {
  /// Where the calls to its ledger are written as a scenario for `run_plan`; null: nowhere.
  std::shared_ptr<std::ostream> recording{};
  /// Ids that are given out are above this: no lease or actor of an earlier broker has one of them.
  std::uint64_t last_id = 0;
  /// How long nodes and clients of an earlier broker may take to come back: until then a request that no node can
  /// satisfy waits, and what belongs to a client that has not come back goes on.
  Duration settle{};
  /// What should be there over restarts: actors with a name or that are detached, placement groups, drained nodes;
  /// null: only what the nodes know.
  std::shared_ptr<DesiredState> store{};
  /// How its process keeps in touch with others, who must do it alike; zero: they are all in this process.
  Duration heartbeat{};
  Duration link_timeout{};
};

/// Messages of nodes and clients become calls of the ledger, the ledger's events become answers and orders.
///
/// A lease goes: granted -> starting (its agent was told) -> held -> ending (its agent was told) -> released, when the
/// agent reports that its holder has ended and its memory is back. An actor goes: waiting -> starting -> alive ->
/// stopping -> dead, or back to waiting while it has restarts left. A node goes with the connection to its agent, and
/// what a client holds with the connection to its port. One thread; never blocks. Each public function takes one
/// message of wire/messages.hpp or one event of the world; control.proto says what the messages mean and what errors
/// they get.
class BrokerCore {
public:
  using DoneAnswer = BrokerAnswer<void>;
  using GrantAnswer = BrokerAnswer<Grant>;
  using FindAnswer = BrokerAnswer<FoundActor>;
  using GroupAnswer = BrokerAnswer<v1::GroupInfo>;

  /// `world` outlives it.
  BrokerCore(BrokerWorld& world, BrokerOptions options);

  /// Before anything else: waits for those who knew an earlier broker, if it may, and reads what is kept.
  void start();

  /// Writes what is still to be written. Nothing is called after it.
  void finish();

  // -- events of the world ---------------------------------------------------------------------

  void wake(Wake what);
  void peer_down(std::uint64_t peer);

  // -- messages of nodes -----------------------------------------------------------------------

  void add_node(v1::RegisterNode message, const ContactPtr& agent, DoneAnswer answer);
  void held_ahead(const v1::HeldAhead& message);
  void lease_started(const v1::LeaseStarted& message, ContactPtr holder, ContactPtr control);
  void lease_ended(const v1::LeaseEnded& message);
  void stuck(const v1::LeaseStuck& message);
  void saved(const v1::ActorSaved& message);
  void used(const v1::HolderUsage& message);
  void devices_failed(const v1::DeviceFault& message);
  void devices_used(const v1::DeviceUse& message);

  // -- messages of clients ---------------------------------------------------------------------

  Result<void> hello(const v1::Hello& message, const ContactPtr& port);
  void goodbye(const v1::Goodbye& message);
  void acquire(const v1::AcquireLease& message, GrantAnswer answer);
  void cancel(const v1::CancelAcquire& message);
  void release(const v1::ReleaseLease& message);
  void spawn_actor(const v1::SpawnActor& message, const Payload& config, FindAnswer answer);
  void find(const v1::FindActor& message, FindAnswer answer);
  void kill(const v1::KillActor& message, DoneAnswer answer);
  void submit_group(const v1::SubmitGroup& message, GroupAnswer answer);
  void release_group(const v1::ReleaseGroup& message, DoneAnswer answer);
  void withdraw(const v1::Withdraw& message, DoneAnswer answer);
  Result<void> drain(const v1::DrainNode& message);
  [[nodiscard]] v1::ClusterState state(const v1::GetState& message) const;
  [[nodiscard]] v1::TypeCatalog types() const;

private:
  using ClientId = std::uint64_t;
  using ActorName = std::pair<std::string, std::string>; // name space, name

  struct NodeRecord {
    v1::Node node;
    std::uint64_t agent_id = 0;
    /// None when it is being removed.
    ContactPtr agent;
    /// Of `peers_`.
    std::uint64_t peer = 0;
    v1::TypeCatalog types;
    /// It is drained, and what runs there has to be gone by then.
    std::optional<TimePoint> empty_by;
    /// Indices of devices that are out of use; `node` says why.
    std::set<int> failed;
    /// How busy its devices are, by their indices, as it was told last.
    std::map<int, v1::DeviceUse::Use> uses;
    std::string release;
  };

  struct ClientRecord {
    std::string name;
    std::string release;
    /// None while it is away.
    ContactPtr port;
    /// Of `peers_`.
    std::uint64_t peer = 0;
    /// The leases that it said it holds.
    std::set<LeaseId> claimed;
    /// How long it may be away.
    Duration grace{};
    /// Its connection is lost; what it has ends then.
    std::optional<TimePoint> away_until;
  };

  /// Whose connection it is: a node's or a client's.
  struct Peer {
    std::string node;
    ClientId client = 0;
  };

  /// A request for tasks that is not granted yet.
  struct TaskRequest {
    ClientId client = 0;
    std::uint64_t client_request = 0;
    /// Who asked for what: leases with another key make way for it.
    std::string key;
    GroupId group;
    bool isolated = false;
    google::protobuf::Map<std::string, std::string> environment;
    GrantAnswer answer;
  };

  using Report = std::variant<v1::LeaseStarted, v1::LeaseEnded, v1::ActorSaved>;

  /// A node that came while others are waited for.
  struct Arrival {
    v1::RegisterNode message;
    ContactPtr agent;
    DoneAnswer answer;
    /// What the node has told since, in its order: of leases that the broker does not know before it admits the node.
    std::vector<Report> reports;
  };

  /// When to look at an actor or a client again.
  struct Due {
    TimePoint at;
    ActorId actor;
    /// 0 where it is an actor.
    ClientId client = 0;

    friend auto operator<=>(const Due&, const Due&) = default;
  };

  /// What a node that is about to register holds, as far as it has come.
  struct HeldParts {
    std::string node;
    std::uint64_t registration = 0;
    std::vector<v1::HeldLease> held;
  };

  /// A placement group, waiting or placed.
  struct GroupRecord {
    std::string name;
    v1::SubmitGroup request;
    std::optional<GroupAnswer> placed;
    /// Not empty: it is ending, and who waits for that.
    std::vector<DoneAnswer> removers;
    bool ending = false;
  };

  struct TaskLease {
    ClientId client = 0;
    std::string key;
    /// Set while its runner is being started.
    std::optional<GrantAnswer> starting;
    bool reclaimed = false;
    /// Its end was ordered.
    bool ending = false;
  };

  /// `returning`: it is in the store, and no node has spoken of it yet.
  /// `pausing`: it crashed, and is submitted again after a while.
  enum class ActorState : std::uint8_t { returning, pausing, waiting, starting, alive, stopping };

  struct ActorRecord {
    ActorId id;
    v1::ActorSpec spec;
    Payload config;
    v1::ResourceRequest request;
    ClientId client = 0;
    std::uint64_t client_request = 0;
    ActorState state = ActorState::waiting;
    Lives lives;
    bool no_restart = false;
    /// Others than the one who asked for it first have asked for it.
    bool shared = false;
    RequestId waiting_for;
    std::optional<v1::Lease> lease;
    /// When its pause is over.
    std::optional<TimePoint> due;
    /// Until it has been alive: when that takes too long.
    std::optional<TimePoint> first_start_by;
    /// As it was when it died; none before.
    std::optional<v1::ActorInfo> last;
    /// Where it goes on when it has ended where it is now: its node is being emptied.
    std::optional<Lease> next;
    std::uint32_t pid = 0;
    std::string address;
    ContactPtr handle;
    ContactPtr control;
    /// What it saved for its next life, and the message's type; none without a type.
    std::string saved_type;
    std::string saved;
    /// In this life.
    std::uint64_t memory_used_bytes = 0;
    std::uint64_t calls = 0;
    /// Who waits until it is alive.
    std::vector<FindAnswer> seekers;
    std::vector<DoneAnswer> killers;
  };

  // -- nodes and clients: peers.cpp -----------------------------------------------------

  void settled();
  std::uint64_t watch(const ContactPtr& contact, Peer peer);
  /// The same node on a new connection: what the two sides believe is brought together.
  void reconcile(const v1::RegisterNode& message);
  /// The node that holds the lease and is not admitted yet; null: none.
  Arrival* arrival_with(std::uint64_t lease, std::uint64_t epoch);
  void hear(const Report& report);
  /// Takes nodes in with all that is held there, and the groups that have bundles on them.
  void admit(std::vector<Arrival> arrivals);
  void adopt(const v1::HeldLease& held, const v1::Node& node);
  void adopt_actor(const v1::HeldLease& held);
  /// What was saved while the connection was lost.
  void take_over_saved(const v1::HeldLease& held);
  void drop_node(const std::string& name);
  /// Its connection is lost.
  void client_down(ClientId id);
  void drop_client(ClientId id);
  void cancel_requests(ClientId id);
  void end_stray_leases(ClientId id, const std::set<LeaseId>& claimed);
  void tell_agent_to_end(const Lease& lease, std::uint64_t grace_ms);

  // -- emptying nodes: drain.cpp --------------------------------------------------------

  /// The node takes new work again.
  Result<void> undrain(const std::string& name);
  /// By what the store says of a node that has come back.
  void drain_again(const std::string& name, const v1::StoredNode& stored);
  void keep_drained(const std::string& name);
  void look_again_at_nodes();
  void empty_nodes();
  /// Has the holder of a lease leave its node, at once or when it is `late`.
  void leave(LeaseId id, const std::string& node, bool late);
  /// Takes the actor's next place, if there is room for it now.
  bool reserve_elsewhere(ActorRecord& actor, const std::string& node);
  void forget_move(LeaseId lease);
  void give_up_move(ActorRecord& actor);

  // -- reports: reports.cpp --------------------------------------------------------------

  /// @returns `invalid_argument` when two processes would take each other for dead.
  [[nodiscard]] Result<void> check_pulse(const std::string& who, std::int64_t heartbeat_ms,
                                         std::int64_t link_timeout_ms) const;

  // -- devices that fail: faults.cpp ----------------------------------------------------

  /// By what a node says of its devices when it registers.
  void fail_faulty_devices(const std::string& name, const v1::Node& said);
  void fail_device(const std::string& node, int index, const std::string& reason);
  /// Why a lease was lost: what its devices failed of, if they did, else what the ledger says.
  [[nodiscard]] std::string why_lost(const Event& event) const;

  // -- what is kept over restarts: store.cpp --------------------------------------------

  void load();
  void load_actor(const v1::HeldLease& stored);
  void restore_groups();
  void start_missing_actors();
  /// Whether nodes are still to come that bundles of stored groups are on.
  [[nodiscard]] bool awaits_nodes() const;
  void keep(const ActorRecord& record);
  void keep(GroupId id);
  void drop(StateSection section, std::uint64_t id);
  /// Has the file know that ids up to some way ahead of this one are given out.
  void reserve_ids(std::uint64_t given);
  void commit_soon();
  void commit();

  // -- leases for tasks, and what is taken back: leases.cpp ----------------------------

  void start_runner(const Lease& lease, TaskRequest request);
  std::optional<TaskRequest> take_task_request(RequestId id);
  void end_task_lease(LeaseId id);
  /// Its node may come back with a lease that has ended here: its client does not want it any more.
  void unclaim(ClientId id, LeaseId lease);

  // -- actors: actors.cpp ---------------------------------------------------------------

  /// For those who ask for an actor that is no more.
  [[nodiscard]] std::string how_ended(std::uint64_t id) const;
  /// Whether a node that has not come back yet may bring it.
  [[nodiscard]] bool may_come_back(const std::string& name, std::uint64_t id) const;
  /// Answers what was asked about those, as far as they are back now.
  void answer_early();
  void kill(ActorRecord& record, std::uint64_t grace_ms);
  void submit_actor(ActorRecord& record);
  void start_actor(const Lease& lease, ActorRecord& record);
  void actor_started(ActorRecord& record, const v1::LeaseStarted& message, ContactPtr holder, ContactPtr control);
  void actor_down(ActorId id, const Error& error, LifeEnd why);
  /// Its pause is over, or its first start has taken too long.
  void actor_due(ActorRecord& record);
  void limit_first_start(ActorRecord& record);
  /// Neither is waited for any more.
  void stop_reminding(ActorRecord& record);
  void forget_actor(ActorId id, const Error& error);
  void answer_with(ActorRecord& record, FindAnswer answer);
  ActorRecord* find_record(const ActorName& name, std::uint64_t id);
  v1::ActorInfo info_of(const ActorRecord& record) const;

  // -- placement groups: groups.cpp -----------------------------------------------------

  /// Refuses a request that names a group which does not exist or is ending.
  Result<void> check_group(GroupId group) const;
  void end_group(GroupId id);
  void forget_group(GroupId id, const Error& error);
  void on_group(const Event& event);
  v1::GroupInfo info_of(GroupId id, const GroupRecord& record) const;

  // -- events of the ledger, and the state: events.cpp ----------------------------------

  void apply(const Ledger::Events& events);
  void apply(Result<Ledger::Events> events, std::string_view what);
  void on_granted(const Event& event);
  void on_refused(const Event& event);
  void on_lost(const Event& event);
  void make_way(RequestId request);
  /// While somebody waits, leases that were granted since make way in turn: who asks for one after the other does not
  /// keep the others out.
  void make_way_again();
  /// Whether a group has bundles without a place.
  [[nodiscard]] bool waits(GroupId id, const GroupRecord& group) const;
  /// Asks a client to give a lease back after the task that runs.
  void reclaim(LeaseId id, TaskLease& lease);
  void log(const Event& event);
  void wake_for_ledger();
  /// Looks at it again then.
  void remind(const Due& due);
  void look_at_due();
  v1::Lease to_wire(const Lease& lease) const;

  BrokerWorld& world_;
  const BrokerOptions options_;
  RecordedLedger ledger_;
  bool recording_failed_ = false;
  bool settling_ = false;
  EventLog log_;
  std::map<std::string, NodeRecord> nodes_;
  std::map<ClientId, ClientRecord> clients_;
  std::map<std::uint64_t, Peer> peers_;
  std::map<RequestId, TaskRequest> task_requests_;
  // By the client and its own number for the request.
  std::map<std::pair<ClientId, std::uint64_t>, RequestId> client_requests_;
  std::map<RequestId, ActorId> actor_requests_;
  std::map<GroupId, GroupRecord> groups_;
  std::map<std::pair<ClientId, std::uint64_t>, GroupId> submitted_groups_;
  std::map<LeaseId, TaskLease> task_leases_;
  std::map<LeaseId, ActorId> actor_leases_;
  std::map<ActorId, ActorRecord> actors_;
  std::map<ActorName, ActorId> names_;
  // Actors that have ended, the latest last.
  std::deque<v1::EndedActor> ended_;
  std::set<Due> dues_;
  TimePoint next_due_ = never;
  std::map<std::pair<ClientId, std::uint64_t>, ActorId> spawns_;
  // What was withdrawn while nodes might still bring it back.
  std::set<std::pair<ClientId, std::uint64_t>> withdrawn_;
  // Of an earlier broker, and ended since: their nodes may not know.
  std::set<ActorId> forgotten_;
  // What nodes that are about to register hold, by the ids of their agents.
  std::map<std::uint64_t, HeldParts> held_ahead_;
  std::vector<Arrival> arrivals_;
  // Asked for while nodes and clients of an earlier broker may still come.
  std::vector<std::pair<v1::FindActor, FindAnswer>> early_finds_;
  std::vector<std::pair<v1::KillActor, DoneAnswer>> early_kills_;
  std::vector<std::pair<v1::Withdraw, DoneAnswer>> early_withdrawals_;
  std::map<GroupId, v1::StoredGroup> stored_groups_;
  std::map<std::string, v1::StoredNode> stored_nodes_;
  bool commit_due_ = false;
  std::uint64_t reserved_ids_ = 0;
  // Whether leases make way again after a turn, how long one is, and who waited longest at the last one.
  bool making_way_ = false;
  Duration turn_ = limits::lease_turn;
  std::optional<RequestId> oldest_waiter_;
  bool emptying_ = false;
  std::chrono::milliseconds emptying_pause_{200};
  std::size_t emptying_left_ = 0;
  // Requests that are being asked for actors which move; each only for the moment of its asking.
  std::map<RequestId, ActorId> moves_;
  // The next places of actors that move.
  std::map<LeaseId, ActorId> reserved_;
  std::uint64_t last_request_;
  std::uint64_t last_actor_;
  std::uint64_t last_group_;
  std::uint64_t last_peer_ = 0;
  // When the ledger wants to be woken next.
  TimePoint ledger_due_ = never;
};

} // namespace gpuactors
