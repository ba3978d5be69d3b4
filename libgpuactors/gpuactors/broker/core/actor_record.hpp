// What the broker knows of one actor. Internal to the layer.
#pragma once

#include <gpuactors/base/caller.hpp>
#include <gpuactors/broker/core/actor_waiters.hpp>
#include <gpuactors/broker/core/lives.hpp>
#include <gpuactors/broker/core/rooms.hpp>
#include <gpuactors/broker/core/world.hpp>
#include <gpuactors/ledger/ledger.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// `returning`: the actor is in the store, and no node has reported it yet. `pausing`: the actor crashed, and is
/// submitted again after a pause.
enum class ActorState : std::uint8_t { returning, pausing, waiting, starting, alive, stopping };

/// A request for an actor whose name is still taken, by one that is ending.
struct NameWaiter {
  v1::SpawnActor message;
  Caller caller;
  Payload config;
  ActorWaiters::Answer answer;
  /// When its time to wait is over.
  TimePoint until = never;
};

struct ActorRecord {
  ActorId id;
  v1::ActorSpec spec;
  Payload config;
  v1::ResourceRequest request;
  std::uint64_t client = 0;
  std::uint64_t client_request = 0;
  ActorState state = ActorState::waiting;
  Lives lives;
  bool no_restart = false;
  /// It was told to end and its node says that it does not.
  bool stuck = false;
  /// A life was lost with its place: it may go on where the broker cannot see it.
  bool strayed = false;
  /// Set when the actor has ended itself: what its callers get.
  std::optional<Error> own_end;
  /// Why the actor was told to end; empty: it was not, or by an earlier broker.
  std::string end_reason;
  /// Somebody looked the actor up by name or joined it with `get_if_exists`: withdrawing its spawn leaves it alone.
  bool shared = false;
  RequestId waiting_for;
  std::optional<v1::Lease> lease;
  /// The latest one that an earlier broker knew; null if it did not.
  LeaseId stored_lease;
  /// Whether the store has it.
  bool stored = false;
  /// Whether an earlier broker knew of a life that had begun, or must not begin again.
  bool had_life = false;
  /// When the pause before the restart is over.
  std::optional<TimePoint> due;
  /// Deadline of the first start; not set once the actor has been alive.
  std::optional<TimePoint> first_start_by;
  /// The actor's info at its latest death; none before.
  std::optional<v1::ActorInfo> last;
  /// The lease on another node under which the actor continues after its end here: its node is being emptied.
  std::optional<Lease> next;
  std::uint32_t pid = 0;
  std::string address;
  HolderContacts contacts;
  /// The message that the actor saved for its next life, and the message's type; an empty type: nothing is saved.
  std::string saved_type;
  std::string saved;
  /// The lease under which that was saved; null if an earlier broker knew.
  LeaseId saved_in;
  /// Why its device was lost, until its holder has ended: the next life begins only then, so that no two write to the
  /// same places.
  std::optional<Error> lost;
  /// The last report about the current life.
  v1::HolderUsage::Entry usage;
  /// Callers who wait until the actor is alive.
  ActorWaiters until_alive;
  /// Callers who wait until it has ended for good.
  ActorWaiters until_ended;
  /// Requests for a new actor of its name, made while it is ending.
  std::vector<NameWaiter> until_name_free;
  /// Callers who have ended this life of it, and wait until that is done.
  std::vector<BrokerAnswer<void>> until_killed;
  /// Its owner's.
  Rooms::Place place;
};

} // namespace gpuactors
