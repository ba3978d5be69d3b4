// Team: actors that work together, and continue together after one of them is lost with its process, device or node.
// For training that runs for hours on several devices.
//
//   // The class derives from `WithPeers`; its method streams reports, each with all that is needed to continue:
//   Result<void> Worker::train(const Lesson& lesson, ReplyStream<Report>& reports) {
//     ... start, or resume from the checkpoint that the lesson names ...
//     for (...) {
//       GPUACTORS_TRY(peers().all_reduce(gpu().stream(), gradients)); // fails when another one is lost
//       ... every so often, write a checkpoint ...
//       GPUACTORS_TRY(reports.write(report));
//     }
//     return {};
//   }
//
//   // The program:
//   gpuactors::Team team{cluster, worker, {{config, {.gpus = 1}}, {config, {.gpus = 1}}}, {.max_failures = 3}};
//   GPUACTORS_LET(reports, team.run(train, [&](const gpuactors::TeamPart<Report>& part) {
//                   auto lesson = first_lesson;
//                   if (!part.reports.empty())
//                     lesson.set_checkpoint(part.reports[part.rank].checkpoint());
//                   return lesson;
//                 }));
//
// It handles failures like Ray Train's worker groups with `FailureConfig(max_failures)`, except that members that were
// not lost live on.
#pragma once

#include <gpuactors/actor/interface.hpp>
#include <gpuactors/base/future.hpp>
#include <gpuactors/cluster/cluster.hpp>
#include <gpuactors/collective/team_options.hpp>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuactors {

/// One member's part in an attempt, from which its request is made.
template <class Report>
struct TeamPart {
  std::size_t rank = 0;
  std::size_t size = 0;
  /// 0 for the first attempt, then the number of failures before it.
  int attempt = 0;
  /// The last reports that all members have made, by rank; empty if there are none.
  std::vector<Report> reports;
};

/// Options of `Team::run`.
template <class Report>
struct TeamCall {
  /// The deadline of each member's call, in each attempt. When it has passed, the work ends with `deadline_exceeded`.
  Duration deadline = Duration::max();
  /// Called when all members have made another report, with these reports by rank.
  std::function<void(const std::vector<Report>&)> on_reports{};
  /// Called after each failure after which the team goes on, including failures that do not count.
  std::function<void(const TeamFailure&)> on_failure{};
};

namespace detail {

class TeamState;

/// Variants without the types of messages.
using PayloadPart = TeamPart<Payload>;
using PayloadCall = TeamCall<Payload>;

struct PayloadMember {
  Payload config;
  Options options;
};

struct TeamWork {
  std::string method;
  std::function<Result<Payload>(const PayloadPart&)> request;
  PayloadCall call;
};

/// Returns the messages of payloads; an empty one for an empty payload.
template <ProtobufMessage Report>
Result<std::vector<Report>> messages_of(const std::vector<Payload>& payloads) {
  std::vector<Report> messages;
  messages.reserve(payloads.size());
  for (const auto& payload : payloads) {
    if (payload.empty()) {
      messages.emplace_back();
      continue;
    }
    GPUACTORS_LET(message, payload.share_as<Report>());
    messages.push_back(*message);
  }
  return messages;
}

} // namespace detail

/// Actors of one type that work together. The team reserves their places together, starts them, forms a group of them
/// (`form_collective`), and calls a method on all of them. When a member is lost, the operations of the others fail;
/// the team waits for all calls, starts the lost members again in their places, forms a new group, and calls the method
/// on all members again, with the last reports that all have made.
///
/// The method of a member is streamed. Its n-th report in an attempt belongs to the n-th reports of the other members.
/// The last reports that all members have made are kept in this object, outlive every member, and are passed to the
/// functions that make the requests of the next attempt. So a report must say all that is needed to continue from
/// there, for example the name of a checkpoint on a file system that all members see. Reports of a member that is ahead
/// of the others are kept until the others have caught up, without a limit.
///
/// Members start with the first `run`, stay for the next one, and end with the team. A member that calls no operation
/// of `peers()` for a long time learns only at its next one that another member is lost.
///
/// The thread of `run` calls the team's functions, one at a time. An exception ends the work with `task_failed`, a
/// `FailedResult` with its error. Of the team, the functions may use only `stop` and `members`. Any thread may call
/// members of a team. Move a team only while it does not work; `cluster` must outlive it and must not be moved.
class Team {
public:
  template <ProtobufMessage Config>
  Team(Cluster& cluster, const ActorKind<Config>& kind, std::type_identity_t<std::vector<TeamMember<Config>>> members,
       TeamOptions options = {})
    : Team(cluster, std::string{kind.name()}, payloads_of(std::move(members)), std::move(options)) {
    // nop
  }

  Team(Team&&) noexcept;
  Team& operator=(Team&&) noexcept;
  /// Stops the work under way and waits for it, then ends the members without waiting for that. While a group is being
  /// formed, the wait includes that: at most twice `answer_within`, for a member that does not answer.
  ~Team();

  /// Calls the method on all members until all have completed it in one attempt, and returns the last report of each
  /// member in that attempt, by rank; an empty message for a member without reports. Blocks.
  /// @param request makes the request of one member; returns an `In` or a `Result<In>`, whose error ends the work.
  /// @returns the error of a member, with its rank and name, after which there is no other attempt: an error of its
  ///          own, or any after `max_failures`; `cancelled` after `stop`; `invalid_argument` for options that belong to
  ///          the team, for a team without members, while the team works already, and on a thread of callbacks
  ///          (`Future::then`), which the members need: call `run_async` there; the errors of `Cluster::create_group`
  ///          and `spawn`, also `no_capacity` for a replacement that waited for longer than its `queue_timeout`.
  template <ProtobufMessage In, ProtobufMessage Report>
  Result<std::vector<Report>> run(const StreamMethod<In, Report>& method,
                                  std::type_identity_t<std::function<Result<In>(const TeamPart<Report>&)>> request,
                                  std::type_identity_t<TeamCall<Report>> call = {}) {
    GPUACTORS_LET(reports, run(work_of<In, Report>(std::string{method.name()}, std::move(request), std::move(call))));
    return detail::messages_of<Report>(reports);
  }

  /// Does the same as `run` on a thread of its own. Cancelling the future stops the work.
  template <ProtobufMessage In, ProtobufMessage Report>
  Future<std::vector<Report>>
  run_async(const StreamMethod<In, Report>& method,
            std::type_identity_t<std::function<Result<In>(const TeamPart<Report>&)>> request,
            std::type_identity_t<TeamCall<Report>> call = {}) {
    return run_async(work_of<In, Report>(std::string{method.name()}, std::move(request), std::move(call)))
        .transform([](const std::vector<Payload>& reports) { return detail::messages_of<Report>(reports); });
  }

  /// Ends the work under way with `cancelled`: asks the members to stop, and keeps them. Does not wait; if a group is
  /// being formed, the work ends only after that, after twice `answer_within` at most. No effect on a team that does
  /// not work.
  void stop();

  /// Returns the members by rank; an empty reference for one that is not started, or is being replaced.
  [[nodiscard]] std::vector<ActorRef> members() const;

private:
  Team(Cluster& cluster, std::string type, std::vector<detail::PayloadMember> members, TeamOptions options);

  Result<std::vector<Payload>> run(const detail::TeamWork& work);
  Future<std::vector<Payload>> run_async(detail::TeamWork work);

  template <ProtobufMessage Config>
  static std::vector<detail::PayloadMember> payloads_of(std::vector<TeamMember<Config>> members) {
    std::vector<detail::PayloadMember> payloads;
    payloads.reserve(members.size());
    for (auto& member : members)
      payloads.push_back({Payload::of(std::move(member.config)), std::move(member.options)});
    return payloads;
  }

  template <ProtobufMessage In, ProtobufMessage Report>
  static detail::TeamWork work_of(std::string method, std::function<Result<In>(const TeamPart<Report>&)> request,
                                  TeamCall<Report> call) {
    detail::TeamWork work{std::move(method), {}, {call.deadline, {}, std::move(call.on_failure)}};
    work.request = [request = std::move(request)](const detail::PayloadPart& part) -> Result<Payload> {
      GPUACTORS_LET(reports, detail::messages_of<Report>(part.reports));
      GPUACTORS_LET(made, request({part.rank, part.size, part.attempt, std::move(reports)}));
      return Payload::of(std::move(made));
    };
    if (call.on_reports)
      work.call.on_reports = [on_reports = std::move(call.on_reports)](const std::vector<Payload>& payloads) {
        if (const auto reports = detail::messages_of<Report>(payloads))
          on_reports(*reports);
      };
    return work;
  }

  std::shared_ptr<detail::TeamState> state_;
};

} // namespace gpuactors
