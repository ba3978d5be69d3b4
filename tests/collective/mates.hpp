// Members of teams for tests, which compute something whose result depends on every round, and fail where they are
// told.
#pragma once

#include <gpuactors/collective/team.hpp>
#include <gpuactors/gpuactors.hpp>

#include <support/gate.hpp>
#include <support/messages.hpp>

#include <atomic>
#include <vector>

namespace gpuactors::test {

/// What a member does in a certain round.
enum class Fault : std::uint8_t {
  none,
  /// Waits until it is asked to stop.
  hang,
  fail,
  out_of_memory,
  /// Makes the round, and reports it only behind `MateGates::report`.
  late,
  /// Fails when another one has come to `MateGates::report`: a failure ends the rounds that others still make.
  fail_behind_late,
};

/// What a member is asked for.
struct Exercise {
  int rounds = 6;
  /// Where it begins: after how many rounds, and with which value.
  int from = 0;
  float value = 0;
  Fault fault = Fault::none;
  /// The round of the fault, from 1 on: before it reports it.
  int at = 0;
};

/// The rounds that it has made, the value after them, how many calls of the same object there were, and its process.
struct Standing {
  int round = 0;
  float value = 0;
  int calls = 0;
  int pid = 0;

  friend bool operator==(const Standing&, const Standing&) = default;
};

inline constexpr ActorKind mate{"mate"};
inline constexpr StreamMethod<Vector, Vector> exercise{"exercise"};

/// Where members wait while a test has closed a gate: in their constructors, when they are to join the others, and
/// before a report that is late. Those that are asked to stop wait no longer, but for joining.
struct MateGates {
  Gate birth{true};
  Gate join{true};
  Gate report{true};
};
MateGates& mate_gates();

/// Keeps the thread of the concurrent methods, so that the member does not answer whether it lives; from `held` on,
/// until that is cleared.
inline constexpr const char* hold = "hold";
std::atomic<bool>& held();

Vector to_message(const Exercise& exercise);
Standing standing_of(const Vector& report);
std::vector<Standing> standings_of(const std::vector<Vector>& reports);

/// The request of a part: goes on from the reports, if there are any.
Vector go_on(Exercise exercise, const TeamPart<Vector>& part);

/// As many members, with so much of a device each.
std::vector<TeamMember<>> mates(std::size_t count, const Options& options = {});

} // namespace gpuactors::test
