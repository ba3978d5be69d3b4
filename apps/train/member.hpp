// An actor that trains together with others of its kind: each has the whole network and a part of every batch, and the
// slopes of all are summed up around a ring of messages.
//
//   method    in             out
//   join      RingPlaces     Status       makes it part of a ring, at the beginning of the epoch under way
//   epoch     EpochRequest   Progress     learns one epoch; answered when it is over, while other messages are served
//   pass      Piece          Empty        from the member before it in the ring
//   leave     Empty          Empty        gives the epoch under way up
//   evaluate, save, status                as those of a trainer
//
// A member waits for nobody: what comes is worked on when it comes, so that a neighbour's death can be told to it.
#pragma once

#include "plan.hpp"
#include "ring.hpp"

#include <deque>
#include <memory>
#include <optional>

namespace train {

class MemberActor : public gpuactors::Actor {
public:
  /// Throws std::runtime_error with what `make_course` or a checkpoint reports.
  MemberActor(gpuactors::Init init, const Plan& plan);

  gpuactors::Result<Status> join(const RingPlaces& places);
  gpuactors::Future<Progress> epoch(const EpochRequest& request);
  gpuactors::Result<void> pass(const Piece& piece);
  gpuactors::Result<void> leave(const google::protobuf::Empty& request);
  gpuactors::Result<Evaluation> evaluate(const google::protobuf::Empty& request);
  gpuactors::Result<Status> save_to(const Path& path);
  gpuactors::Result<Status> status(const google::protobuf::Empty& request);

private:
  using EpochPromise = gpuactors::Promise<Progress>;

  /// Does what can be done with what has come: steps until one waits for pieces or the epoch is over.
  gpuactors::Result<void> go_on();
  template <class T>
  gpuactors::Result<void> go_on_as();
  template <class T>
  gpuactors::Result<void> open_step(std::vector<T>& own);
  template <class T>
  gpuactors::Result<void> take_early(std::vector<T>& own);
  void send(const PieceSpan& piece, const void* values, std::size_t bytes);
  gpuactors::Result<void> finish_epoch();
  void give_up(const gpuactors::Error& error);

  Plan plan_;
  gpuactors::Result<Course> course_;
  std::uint64_t generation_ = 0;
  std::optional<Ring> ring_;
  gpuactors::ActorRef next_;
  /// The epoch under way; shared with the answers to pieces, which may fail it.
  std::shared_ptr<EpochPromise> promise_;
  /// The sum of the step under way is not complete.
  bool open_ = false;
  /// Pieces of the step under way, or of the next one when the member before is ahead.
  std::deque<Piece> early_;
  std::vector<float> narrow_;
  std::vector<double> wide_;
};

} // namespace train
