// A cluster in one thread, in its own time and from a seed, around the real cores of broker and agents: worker
// processes, clients and connections are played, and fail.
#pragma once

#include <gpuactors/agent/core/agent_core.hpp>
#include <gpuactors/broker/core/broker_core.hpp>

#include <broker/memory_store.hpp>

#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace simulation {

using gpuactors::Duration;
using gpuactors::TimePoint;

/// What happens to a cluster besides its work, each with its weight.
struct Faults {
  int lost_connections = 0;
  int lost_nodes = 0;
  int lost_clients = 0;
  int lost_holders = 0;
  /// Worker processes, which also do not start, do not come up, or do not end.
  int lost_workers = 0;
  /// Actors that end themselves.
  int own_ends = 0;
  int lost_brokers = 0;
  int drains = 0;
  /// Devices of nodes; they are whole again when the node was restarted.
  int lost_devices = 0;
  /// Nodes and clients that say that they go.
  int goodbyes = 0;
  /// Of the broker, for so long that all others give it up.
  int standstills = 0;
  /// Changes of quotas; most clients have a name then.
  int quotas = 0;
  /// Nodes have different types of tasks and actors, others after they were started again.
  bool mixed_types = false;
  /// Nodes whose programs change, and with them the types.
  int renewals = 0;
  /// How often in a hundred looks a node finds its host memory full; 0: it does not look.
  int full_memory = 0;
};

/// How often what has happened, so that a test can tell whether it has seen everything.
using Coverage = std::map<std::string, std::uint64_t>;

/// What is to be done, by time and then in the order in which it was planned.
class Timeline {
public:
  [[nodiscard]] TimePoint now() const noexcept {
    return now_;
  }

  void at(TimePoint when, std::function<void()> what) {
    planned_.emplace(std::max(when, now_), std::move(what));
  }

  /// Lets so much time pass in which nothing is done: what was planned for it is late.
  void jump(Duration by) {
    now_ += by;
  }

  /// @returns whether there was anything to do until then.
  bool step(TimePoint until);

private:
  TimePoint now_{std::chrono::hours{1}};
  std::multimap<TimePoint, std::function<void()>> planned_;
};

/// A connection to the broker: messages arrive in their order, each after a while, until it is lost.
struct Link : gpuactors::Contact {
  bool up = true;
  /// Of the broker that it leads to.
  std::uint64_t broker = 0;
  TimePoint last_to_broker;
  TimePoint last_from_broker;
  std::function<void(const gpuactors::v1::StartRunner&)> on_runner;
  std::function<void(const gpuactors::v1::StartActor&)> on_actor;
  std::function<void(const gpuactors::v1::EndLease&)> on_end;
  std::function<void(const gpuactors::v1::ReclaimLease&)> on_reclaim;
  std::vector<std::function<void()>> watchers;
};

class Cluster {
public:
  /// `trace`: where it tells what happens; null: nowhere.
  Cluster(std::uint64_t seed, const Faults& faults, Coverage& coverage, std::ostream* trace = nullptr);
  ~Cluster();

  /// Lets clients ask for this and that, and things fail, so often.
  void live(int actions);

  /// Nothing fails any more and nobody asks for anything new: all messages arrive.
  void calm();

  /// Everybody gives back what they have.
  void leave();

  /// What is not as it should be in a calm cluster; empty: all is well.
  [[nodiscard]] std::vector<std::string> disagreements();

  /// Actors that may be restarted for ever, that nobody has ended, and that are not there. Where no machine and no
  /// client is lost.
  [[nodiscard]] std::vector<std::string> forsaken();

  /// Nodes, and work of clients, that the broker has given up without waiting for their return.
  [[nodiscard]] std::vector<std::string> given_up();

  /// What must be gone when all have left, and is not.
  [[nodiscard]] std::vector<std::string> leftovers();

  /// What must never be, and was.
  [[nodiscard]] const std::vector<std::string>& violations() const noexcept {
    return violations_;
  }

private:
  class World;
  class AgentSide;
  struct Node;
  struct Process;
  struct Client;
  struct Asked;

  // -- connections -----------------------------------------------------------------------------

  std::shared_ptr<Link> connect();
  void cut(const std::shared_ptr<Link>& link);
  /// Has the broker do something when the message has arrived.
  void to_broker(const std::shared_ptr<Link>& link, std::function<void(gpuactors::BrokerCore&)> what);
  void from_broker(const std::shared_ptr<Link>& link, std::function<void()> what);
  [[nodiscard]] Duration soon(int most_ms);

  // -- the broker ------------------------------------------------------------------------------

  void start_broker();
  void lose_broker();

  // -- nodes -----------------------------------------------------------------------------------

  void start_agent(Node& node);
  /// Has the agent do something later, if its process is still the same then.
  void at_agent(Node& node, Duration after, std::function<void(gpuactors::AgentCore&)> what);
  /// A new connection to the broker.
  void come(Node& node);
  void say_goodbye(Node& node);
  /// The machine is started again: all processes are gone.
  void restart(Node& node);
  /// Where a node's agent, its processes and its log are of different minds.
  static std::vector<std::string> disagreements_of(const Node& node);
  void check_room(const Node& node);
  void note_lender(const gpuactors::v1::Lease& lease);
  /// Whether a lease has its part from the other one, also by way of some that have ended.
  [[nodiscard]] bool borrows_from(std::uint64_t borrower, std::uint64_t lender) const;
  /// Whether what is borrowed counts as somebody's who is still there.
  [[nodiscard]] bool has_lender(const Node& node, std::uint64_t borrower) const;
  /// What runs in a process is of a type that its program has.
  void check_type(const Process& process, const gpuactors::v1::HeldLease& held);
  /// The programs that it has from now on.
  void choose_programs(Node& node);
  void renew_programs(Node& node);
  /// Some type that requests are for.
  [[nodiscard]] std::string some_type();
  void check_life(const gpuactors::v1::HeldLease& held);

  // -- worker processes ------------------------------------------------------------------------

  std::shared_ptr<Process> process_of(Node& node, std::uint64_t number);
  void start_process(Node& node, const gpuactors::WorkerCommand& command, std::uint64_t owner);
  void to_worker(const std::shared_ptr<Process>& process, std::function<void()> what);
  void to_agent(const std::shared_ptr<Process>& process, std::function<void(gpuactors::AgentCore&)> what);
  void exit(std::shared_ptr<Process> process);
  void unclaim(std::uint64_t lease);
  void hold(const std::shared_ptr<Process>& process, const gpuactors::v1::HeldLease& held);
  void note_lasting(const gpuactors::v1::StartActor& actor);
  void begun(const std::shared_ptr<Process>& process, std::uint64_t lease);
  void save(const std::shared_ptr<Process>& process, std::uint64_t lease);
  gpuactors::v1::HeldLease stop_running(const std::shared_ptr<Process>& process, std::uint64_t lease);
  void end(const std::shared_ptr<Process>& process, std::uint64_t lease, const std::optional<gpuactors::Error>& error);
  void asked_to_end(const std::shared_ptr<Process>& process, const gpuactors::v1::EndLease& order);
  void revoke(const std::shared_ptr<Process>& process, const gpuactors::v1::DeviceFault& order);
  void give_up(const std::shared_ptr<Process>& process, const gpuactors::v1::EndProcess& order);
  gpuactors::MemoryLook memory_of(const gpuactors::MemoryQuery& query);
  void end_itself(const std::shared_ptr<Process>& process, std::uint64_t lease);
  void lose_context(const std::shared_ptr<Process>& process, int device);

  // -- the broker's books ----------------------------------------------------------------------

  void check_quotas();
  void set_some_quota();
  void count_ends();

  // -- clients ---------------------------------------------------------------------------------

  void greet(Client& client);
  void ask(Client& client, std::uint64_t number);
  void answered(Client& client, std::uint64_t number, const gpuactors::Error* error);
  void acquire(Client& client);
  void spawn(Client& client);
  void kill(Client& client, std::uint64_t actor);
  void find(Client& client);
  /// Waits until the actor has ended for good.
  void mourn(Client& client, std::uint64_t actor);
  void submit_group(Client& client);
  void release_group(Client& client, std::uint64_t group);
  Client& add_client();
  [[nodiscard]] Client* some_client();
  /// A lease from inside which something is asked for; 0: from outside.
  [[nodiscard]] std::uint64_t some_spawner();
  void begin(Client& client, std::string what, std::function<void(gpuactors::BrokerCore&, const Asked&)> send);
  /// What the broker answers to `asked`: `done` gets it at the client, unless the connection is lost before.
  template <class T, class Done>
  gpuactors::BrokerAnswer<T> answer(Client& client, const Asked& asked, Done done);
  void give_back(Client& client, std::uint64_t lease);
  void withdraw(Client& client, std::uint64_t number);

  void act();
  void fail_something();
  void lose_some_holder(Node& node);
  void lose_some_worker(Node& node);
  void drain_some_node();
  void fail_some_device(Node& node);
  void lose(Client& client);
  void stop(Node& node);
  void stop(Client& client);
  void stand_still();
  /// When somebody is back who has given the broker up because it stood still.
  [[nodiscard]] Duration return_time();
  void note(const std::string& what) const;
  void note(const std::string& what, const google::protobuf::Message& message) const;
  void run_for(Duration time);
  [[nodiscard]] gpuactors::v1::ClusterState state();
  [[nodiscard]] std::uint64_t pick(std::uint64_t below);
  [[nodiscard]] bool chance(int percent);
  gpuactors::v1::ResourceRequest some_need();
  void set_some_owner(const Client& client, gpuactors::v1::ResourceRequest& need);

  std::ostream* trace_;
  Coverage& coverage_;
  Faults faults_;
  std::mt19937_64 random_;
  bool calm_ = false;
  Timeline time_;
  std::shared_ptr<broker_test::MemoryStore> store_;
  std::uint64_t broker_number_ = 0;
  std::unique_ptr<World> world_;
  std::unique_ptr<gpuactors::BrokerCore> core_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::uint64_t last_client_ = 0;
  std::uint64_t last_agent_ = 0;
  std::uint64_t last_save_ = 0;
  /// What is known of an actor that may be restarted for ever.
  struct Lasting {
    /// It may be started under another id, if its client asks for it again.
    std::set<std::uint64_t> ids;
    TimePoint begun;
  };
  /// By client and the number of its request.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Lasting> lasting_;
  /// Actors that were killed for good.
  std::set<std::uint64_t> killed_;
  /// Actors whose end somebody was told.
  std::set<std::uint64_t> told_ended_;
  /// By actor: what it saved last, as an agent knows.
  std::map<std::uint64_t, std::string> saved_;
  /// Some machine was started again.
  bool restarted_ = false;
  /// Ids of leases that holders were started under.
  std::set<std::uint64_t> seen_;
  /// Of leases that borrow: from which.
  std::map<std::uint64_t, std::uint64_t> lenders_;
  /// What owners held when it was looked at last, and the broker's last event then.
  std::map<std::string, std::int64_t> held_units_;
  std::uint64_t last_event_ = 0;
  std::uint64_t looks_ = 0;
  /// The broker waits for what an earlier one knew.
  bool settling_ = false;
  std::vector<std::string> violations_;
};

} // namespace simulation
