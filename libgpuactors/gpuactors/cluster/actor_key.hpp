// ActorKey: what tells one actor from all others.
#pragma once

#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/actor.pb.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace gpuactors {

class ActorRef;

/// One actor, by whatever a program knows of it: its name (`Options::name`), with its name space if it has one; an
/// `ActorRef`; the reference that came in a message (`ActorRef::to_message`, `Actor::own_handle`); or the number that
/// `Cluster::state` reports, for an actor that may have no name. Made in the call that takes it:
/// `cluster.find("ranker")`, `cluster.kill({"ranker", "team-a"})`, `cluster.when_ended(message.peer())`. Names are not
/// copied: they must outlive the call.
class ActorKey {
public:
  ActorKey(const char* name) : ActorKey(std::string_view{name}) { // NOLINT(google-explicit-constructor)
    // nop
  }

  ActorKey(const std::string& name) : ActorKey(std::string_view{name}) { // NOLINT(google-explicit-constructor)
    // nop
  }

  ActorKey(std::string_view name, std::string_view name_space = {}) // NOLINT(google-explicit-constructor)
    : kind_(Kind::name), name_(name), name_space_(name_space) {
    // nop
  }

  ActorKey(v1::ActorHandle reference) // NOLINT(google-explicit-constructor)
    : kind_(Kind::reference), reference_(std::move(reference)) {
    // nop
  }

  ActorKey(const ActorRef& actor); // NOLINT(google-explicit-constructor)

  ActorKey(ActorId number) : kind_(Kind::number) { // NOLINT(google-explicit-constructor)
    reference_.set_id(number.value());
  }

  /// Returns whether the actor is known by its name, and not by a reference or number.
  [[nodiscard]] bool is_name() const noexcept {
    return kind_ == Kind::name;
  }

  /// @returns `invalid_argument` for an empty name, an empty reference, or the number 0.
  [[nodiscard]] Result<void> check() const;

  /// Return the name and its name space; empty if the actor is not known by its name.
  [[nodiscard]] std::string_view name() const noexcept {
    return name_;
  }
  [[nodiscard]] std::string_view name_space() const noexcept {
    return name_space_;
  }

  /// Returns the reference; of a number, one that has no more than this number.
  [[nodiscard]] const v1::ActorHandle& reference() const noexcept {
    return reference_;
  }

  /// Writes what the broker finds the actor by into a request that has these fields (`FindActor`, `KillActor`).
  template <class Request>
  void write_to(Request& request) const {
    if (is_name()) {
      request.set_name(std::string{name_});
      request.set_name_space(std::string{name_space_});
      return;
    }
    request.set_id(reference_.id());
    *request.mutable_handle() = reference_;
  }

  /// Returns the actor for people: "team-a/ranker", "12 (Ranker)" or "12".
  [[nodiscard]] friend std::string to_string(const ActorKey& actor) {
    return actor.in_words();
  }

private:
  enum class Kind : std::uint8_t { name, reference, number };

  [[nodiscard]] std::string in_words() const;

  Kind kind_;
  std::string_view name_{};
  std::string_view name_space_{};
  v1::ActorHandle reference_{};
};

} // namespace gpuactors
