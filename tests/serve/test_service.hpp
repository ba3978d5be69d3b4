// A `Service` with a few small models of real arithmetic, for tests of the fronts.
#pragma once

#include "test_talk.hpp"

#include <apps/serve/service.hpp>
#include <support/gate.hpp>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace serve::test {

/// Models:
///   line   y = 2x + 1 over FP32 rows of 4, in batches of up to 64
///   echo   gives back every input under its own name, whatever its type
///   wait   never answers by itself: it ends by its timeout (100 s if there is none) or when the client has gone
///   big    FP32 y of as many elements as INT32 n says
///   talk   a generative one, see test_talk.hpp
class TestService final : public Service {
public:
  TestService();
  ~TestService() override;

  std::shared_ptr<Ticket> infer(InferRequest request, InferDone done) override;
  std::shared_ptr<Replies> generate(InferRequest request) override;
  [[nodiscard]] gpuactors::Result<bool> generative(std::string_view model, std::string_view version,
                                                   const SequenceStep& step) const override;
  [[nodiscard]] bool ready() const override;
  [[nodiscard]] gpuactors::Result<bool> model_ready(std::string_view model, std::string_view version) const override;
  [[nodiscard]] gpuactors::Result<ModelDescription> describe(std::string_view model, std::string_view version,
                                                             const SequenceStep& step = {}) const override;
  [[nodiscard]] gpuactors::Result<std::vector<ModelStatistics>> statistics(std::string_view model,
                                                                           std::string_view version) const override;
  [[nodiscard]] std::vector<RepositoryEntry> repository() const override;
  gpuactors::Result<void> load(std::string_view model, const std::map<std::string, std::string>& parameters) override;
  gpuactors::Result<void> unload(std::string_view model) override;
  [[nodiscard]] std::string metrics() const override;

  /// The last request for "line".
  [[nodiscard]] InferRequest last() const;
  /// Requests that wait.
  [[nodiscard]] std::size_t waiting() const;
  /// Requests that were given up by their clients.
  [[nodiscard]] std::size_t cancelled() const;

  /// Has every question whether it is ready wait at the gate, until that is opened.
  void hold_ready(gpuactors::test::Gate& gate);

  [[nodiscard]] TalkCounts& talks() const noexcept {
    return *talks_;
  }

private:
  class WaitingTicket;
  struct Waiting {
    InferDone done;
    gpuactors::TimePoint deadline;
  };

  gpuactors::Result<InferReply> compute(const InferRequest& request);
  std::shared_ptr<Ticket> wait(const InferRequest& request, InferDone done);
  void end_waiting(std::uint64_t number);
  void watch_deadlines();

  std::map<std::string, ModelDescription> models_;
  const std::shared_ptr<TalkCounts> talks_ = std::make_shared<TalkCounts>();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> unloaded_;
  std::map<std::string, ModelStatistics> statistics_;
  std::map<std::string, std::string> load_parameters_;
  std::map<std::uint64_t, Waiting> waiting_;
  std::uint64_t next_ = 0;
  InferRequest last_;
  std::size_t cancelled_ = 0;
  gpuactors::test::Gate* before_ready_ = nullptr;
  bool ending_ = false;
  std::thread watcher_;
};

} // namespace serve::test
