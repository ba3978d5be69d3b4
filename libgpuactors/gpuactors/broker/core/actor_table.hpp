// ActorTable: the broker's records of actors, and all ways to find one. Internal to the layer.
#pragma once

#include <gpuactors/broker/core/actor_record.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors {

/// Name space and name.
using FullName = std::pair<std::string, std::string>;

/// A client, and the client's number for what it has asked for.
using ClientRequest = std::pair<std::uint64_t, std::uint64_t>;

/// Owns the records. Each index follows from fields of the record, and the functions below are the only ones that
/// change these: the identity, which stays; `waiting_for` while the actor waits; `lease`; and `next`. Pointers and
/// references to a record stay valid until it is removed. One thread.
class ActorTable {
public:
  using Records = std::map<ActorId, ActorRecord>;
  /// A record that the table has no more; it keeps its address.
  using Removed = Records::node_type;
  using Waiting = std::map<RequestId, ActorRecord*>;

  /// Of two actors of one name, or for one request, the one that came last is found.
  /// @param record of an actor that the table does not have, which neither waits nor has a lease.
  ActorRecord& add(ActorRecord record);

  /// Removes the record from all indices. What it has, the caller gives back. @returns an empty node if there is none.
  [[nodiscard]] Removed remove(ActorId id);

  // -- where to find one; each returns null if there is none -------------------------------------

  [[nodiscard]] ActorRecord* find(ActorId id);
  [[nodiscard]] ActorRecord* find(const FullName& name) const;
  /// The actor that was spawned for the client's request.
  [[nodiscard]] ActorRecord* spawned_for(const ClientRequest& request) const;
  /// The actor whose place was asked for with this request, and that still waits for it.
  [[nodiscard]] ActorRecord* waiting_with(RequestId request) const;
  /// The actor whose present life has this lease.
  [[nodiscard]] ActorRecord* holder_of(LeaseId lease) const;
  /// The actor whose next life is to have this lease.
  [[nodiscard]] ActorRecord* moving_to(LeaseId lease) const;

  /// In the order of their requests.
  [[nodiscard]] const Waiting& waiting() const noexcept {
    return waiting_;
  }

  /// At most `most` names of the name space, in alphabetical order.
  [[nodiscard]] std::vector<std::string> names_in(const std::string& name_space, std::size_t most) const;

  // In the order of ids.
  [[nodiscard]] Records::iterator begin() noexcept {
    return records_.begin();
  }
  [[nodiscard]] Records::iterator end() noexcept {
    return records_.end();
  }
  [[nodiscard]] Records::const_iterator begin() const noexcept {
    return records_.begin();
  }
  [[nodiscard]] Records::const_iterator end() const noexcept {
    return records_.end();
  }

  // -- from one state to the next ----------------------------------------------------------------

  /// The actor waits for the place that this request asks for.
  void wait(ActorRecord& record, RequestId request);
  /// The actor does not wait any more. `waiting_for` stays: the number of its last request.
  void stop_waiting(ActorRecord& record);
  void hold(ActorRecord& record, v1::Lease lease);
  /// The life that had the lease is over.
  void let_go(ActorRecord& record);
  void reserve(ActorRecord& record, Lease next);
  /// @returns the lease of the next life, which is reserved no more.
  std::optional<Lease> take_next(ActorRecord& record);

private:
  Records records_;
  std::map<FullName, ActorRecord*> names_;
  std::map<ClientRequest, ActorRecord*> spawns_;
  Waiting waiting_;
  std::map<LeaseId, ActorRecord*> holders_;
  std::map<LeaseId, ActorRecord*> moves_;
};

} // namespace gpuactors
