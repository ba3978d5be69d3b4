// llm/decoder: an actor type that gpuactors-serve serves as a generative model (docs/guide/language-models.md).
// Requests are lists of tokens, or texts and conversations, of any length; answers are streams of the same. All
// requests of a replica share its steps.
#include <gpuactors/gpuactors.hpp>
#include <gpuactors/v1/serving.pb.h>

#include <apps/llm/answer.hpp>
#include <apps/llm/batch.hpp>
#include <apps/llm/decoder.hpp>
#include <apps/llm/language.hpp>
#include <apps/llm/wishes.hpp>
#include <apps/nn/files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llm {

namespace {

using google::protobuf::Empty;
using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;
using gpuactors::value_or_throw;
namespace v1 = gpuactors::v1;

/// A client that reads slowly has so many tokens waiting for it before its text stands still.
constexpr std::size_t most_waiting = 64;
constexpr std::chrono::milliseconds look_again{5};
/// How long one may stand still while there is no place for another one.
constexpr std::chrono::seconds longest_stand{10};
/// Tokens of an answer whose request does not say how many.
constexpr std::int64_t usual_tokens = 128;

Result<Config> load_config(const std::filesystem::path& folder, gpuactors::Fingerprint& fingerprint) {
  GPUACTORS_LET(text, nn::read_text(folder / "config.json"));
  fingerprint.add(text);
  GPUACTORS_LET(config, read_config(text));
  // Not all models have one, which says more of when texts end.
  GPUACTORS_LET(more, nn::read_text_if_there(folder / "generation_config.json"));
  if (more) {
    fingerprint.add(*more);
    GPUACTORS_TRY(add_ends(config, *more));
  }
  return std::move(config);
}

/// What a replica publishes of its work.
struct Gauges {
  explicit Gauges(gpuactors::Metrics& metrics)
    : pages(value_or_throw(metrics.gauge("llm_pages", "Pages for keys and values."))),
      free_pages(
          value_or_throw(metrics.gauge("llm_pages_free", "Pages that no text has; texts to come may share some."))),
      running(value_or_throw(metrics.gauge("llm_texts_running", "Texts that run."))),
      waiting(value_or_throw(metrics.gauge("llm_texts_waiting", "Texts that wait for pages."))),
      given(value_or_throw(metrics.counter("llm_prompt_tokens_total", "Tokens that were given."))),
      shared(value_or_throw(metrics.counter("llm_shared_tokens_total",
                                            "Tokens that were given and had been computed for another text."))),
      written(value_or_throw(metrics.counter("llm_written_tokens_total", "Tokens that were written."))),
      step_seconds(value_or_throw(metrics.histogram("llm_step_seconds", {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3},
                                                    "Of a step of all texts that run."))) {
    // nop
  }

  gpuactors::Metrics::Gauge pages;
  gpuactors::Metrics::Gauge free_pages;
  gpuactors::Metrics::Gauge running;
  gpuactors::Metrics::Gauge waiting;
  gpuactors::Metrics::Counter given;
  gpuactors::Metrics::Counter shared;
  gpuactors::Metrics::Counter written;
  gpuactors::Metrics::Histogram step_seconds;
};

/// A part of a device or all of it: which one, its model's size says.
class Replica : public gpuactors::Actor {
public:
  Replica(gpuactors::Init init, const v1::ReplicaConfig& config) : Actor(std::move(init)) {
    if (gpu_count() != 1)
      throw gpuactors::FailedResult{
          gpuactors::Error{Errc::invalid_argument,
                           fmt::format("a decoder runs on one device or a part of one, not on {}", gpu_count())}};
    const auto settings = value_or_throw(read_settings(config));
    if (config.max_running() < 1)
      throw gpuactors::FailedResult{gpuactors::Error{
          Errc::invalid_argument, fmt::format("max_running is {}; it is at least 1", config.max_running())}};
    gpuactors::Fingerprint fingerprint;
    auto model = value_or_throw(load_config(settings.folder, fingerprint));
    if (settings.texts)
      language_ = value_or_throw(Language::load(settings.folder, model.vocabulary, fingerprint));
    auto& stream = gpu().stream();
    auto weights = value_or_throw(load_weights(stream, model, settings.folder));
    fingerprint.add(weights.fingerprint.to_string());
    fingerprint_ = fingerprint.to_string();
    value_or_throw(warm_up(stream));
    const auto room = value_or_throw(find_room(settings, config.max_running(), model, weights.dtype));
    decoder_ = value_or_throw(Decoder::make(stream, std::move(model), std::move(weights), room));
    value_or_throw(decoder_->warm_up());
    batch_ = std::make_unique<Batch>(room);
    gauges_.pages.set(static_cast<double>(room.pages));
    publish();
  }

  v1::ReplicaDescription describe(const Empty&) {
    v1::ReplicaDescription description;
    describe_io(description, language_.has_value());
    description.set_fingerprint(fingerprint_);
    description.set_memory_used_bytes(gpu().memory_used());
    return description;
  }

  /// Keeps the reply, and goes on with it in steps behind the calls that have come.
  Result<void> generate(const v1::GenerateRequest& request, gpuactors::ReplyStream<v1::GenerateReply>& out) {
    if (request.inputs_size() != 1)
      return fail(Errc::invalid_argument, "a request has one input");
    GPUACTORS_LET(wishes, read_wishes(request, language_.has_value(), random_()));
    GPUACTORS_LET(tokens, language_ ? read_text(request.inputs(0), wishes.is_chat) : read_tokens(request.inputs(0)));
    if (tokens.empty())
      return fail(Errc::invalid_argument, "no tokens were given; there is at least one");
    const auto given = static_cast<std::int64_t>(tokens.size());
    const auto context = decoder_->room().positions;
    if (given >= context)
      return fail(Errc::invalid_argument,
                  fmt::format("{} tokens were given; with at least one more, {} have room", given, context));
    const auto wanted = wishes.max_tokens.value_or(wishes.is_chat ? context : usual_tokens);
    const auto most = given + std::min(wanted, context - given);
    const auto choice = wishes.choice;
    GPUACTORS_LET(reply, out.keep());
    const auto id = ++last_id_;
    replies_.emplace(id, Reply{std::move(reply), answer_for(std::move(wishes), given)});
    gauges_.given.add(static_cast<double>(given));
    batch_->add({id, std::move(tokens), most, choice});
    if (!std::exchange(stepping_, true))
      post([this] { step(); });
    return {};
  }

private:
  struct Reply {
    gpuactors::OpenStream<v1::GenerateReply> stream;
    Answer answer;
    /// Since when its client has had no room for more.
    std::optional<std::chrono::steady_clock::time_point> stands_since = {};
  };

  /// A first product, so that what products take of the quota is taken before the rest is divided.
  static Result<void> warm_up(gpuactors::Stream& stream) {
    GPUACTORS_LET(a, stream.tensor_from(std::vector<float>(4, 0.0F), {2, 2}));
    GPUACTORS_LET(c, stream.tensor(gpuactors::DType::f32, {2, 2}));
    GPUACTORS_TRY(stream.gemm(a, a, c));
    return stream.synchronize();
  }

  /// Divides what the lease has left of its memory: as many pages as texts can use, if they have room.
  Result<Room> find_room(const Settings& settings, std::int64_t slots, const Config& model, gpuactors::DType dtype) {
    Room room;
    room.slots = slots;
    room.rows = std::max(settings.step_tokens, slots);
    room.positions = std::min(settings.context, model.positions);
    const auto left = gpu().memory_limit() - std::min(gpu().memory_limit(), gpu().memory_used());
    const auto working = Decoder::working_bytes(model, dtype, room);
    const auto page = Decoder::page_bytes(model, dtype);
    // One page belongs to nobody.
    const auto pages = static_cast<std::int64_t>((left - std::min(left, working)) / page) - 1;
    if (pages < pages_for(room.positions))
      return fail(Errc::out_of_memory,
                  fmt::format("beside the weights, {} B of the lease's {} B are left: {} B to work in, and {} B for {} "
                              "positions of one text; give it more memory, or less with set=context=N, "
                              "set=step_tokens=N or a smaller max-running",
                              left, gpu().memory_limit(), working,
                              static_cast<std::uint64_t>(pages_for(room.positions) + 1) * page, room.positions));
    // Shared beginnings make use of more than texts have: of as many again.
    room.shares_pages = settings.share_beginnings;
    room.pages = std::min(pages, (room.shares_pages ? 2 : 1) * slots * pages_for(room.positions));
    return room;
  }

  Result<std::vector<std::int32_t>> read_tokens(const v1::GenerateTensor& input) const {
    std::vector<std::int32_t> tokens(input.data().size() / sizeof(std::int32_t));
    if (input.data().size() % sizeof(std::int32_t) != 0 || input.shape_size() != 1
        || input.shape(0) != static_cast<std::int64_t>(tokens.size()))
      return fail(Errc::invalid_argument,
                  fmt::format("tokens are of INT32 in one dimension; these have the shape [{}] and {} bytes",
                              fmt::join(input.shape(), ","), input.data().size()));
    if (tokens.empty())
      return tokens;
    std::memcpy(tokens.data(), input.data().data(), tokens.size() * sizeof(std::int32_t));
    for (const auto token : tokens)
      if (token < 0 || token >= decoder_->config().vocabulary)
        return fail(Errc::invalid_argument,
                    fmt::format("{} is no token; they are 0 to {}", token, decoder_->config().vocabulary - 1));
    return tokens;
  }

  /// The tokens of a text, or of a conversation.
  [[nodiscard]] Result<std::vector<std::int32_t>> read_text(const v1::GenerateTensor& input, bool is_chat) const {
    std::uint32_t size = 0;
    if (input.data().size() < sizeof(size))
      return fail(Errc::invalid_argument, "the input is one text, with its length before it");
    std::memcpy(&size, input.data().data(), sizeof(size));
    if (input.data().size() - sizeof(size) != size)
      return fail(Errc::invalid_argument, fmt::format("the input is one text of {} bytes, and {} came", size,
                                                      input.data().size() - sizeof(size)));
    const auto text = std::string_view{input.data()}.substr(sizeof(size));
    auto tokens = is_chat ? language_->tokens_of_chat(text, local_time()) : language_->tokens_of(text);
    // Whatever it is, another request would be answered.
    if (!tokens)
      return fail(Errc::invalid_argument, tokens.error().message());
    return tokens;
  }

  static std::chrono::local_seconds local_time() {
    const auto now = std::time(nullptr);
    std::tm parts{};
    localtime_r(&now, &parts);
    return std::chrono::local_seconds{std::chrono::seconds{timegm(&parts)}};
  }

  [[nodiscard]] Answer answer_for(Wishes wishes, std::int64_t given) const {
    const auto ends = wishes.ignores_end ? std::span<const std::int32_t>{} : std::span{decoder_->config().ends};
    if (!language_)
      return Answer{ends};
    const auto begins = wishes.is_chat ? tokenizer::Begins::text : tokenizer::Begins::continuation;
    return Answer{ends, TextOfTokens{language_->tokenizer(), begins}, std::move(wishes.stops), given};
  }

  /// The next tokens of all texts whose clients have room for them.
  void step() {
    drop_stopped();
    const auto now = std::chrono::steady_clock::now();
    for (auto& [id, reply] : replies_)
      if (reply.stream.waiting() < most_waiting)
        reply.stands_since.reset();
      else if (!reply.stands_since)
        reply.stands_since = now;
    if (batch_->is_full())
      end_standing(now);
    const auto plan = batch_->plan([this](TextId id) { return !replies_.at(id).stands_since; },
                                   [this](const Text& text) { begin(text); });
    if (!plan.rows.empty())
      run(plan);
    publish();
    stepping_ = !replies_.empty();
    if (stepping_ && plan.rows.empty())
      post_after(look_again, [this] { step(); });
    else if (stepping_)
      post([this] { step(); });
  }

  void begin(const Text& text) {
    decoder_->set_pages(text.slot, text.cache.pages);
    gauges_.shared.add(static_cast<double>(text.seen));
  }

  void run(const Step& plan) {
    const auto begin = std::chrono::steady_clock::now();
    const auto chosen = decoder_->run(plan);
    if (!chosen)
      return fail_all(chosen.error());
    gauges_.step_seconds.observe(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    for (const auto& one : batch_->take(*chosen))
      pass_on(one);
  }

  void publish() {
    gauges_.free_pages.set(static_cast<double>(batch_->free_pages()));
    gauges_.running.set(static_cast<double>(batch_->running()));
    gauges_.waiting.set(static_cast<double>(batch_->waiting()));
  }

  void drop_stopped() {
    for (auto reply = replies_.begin(); reply != replies_.end();) {
      if (reply->second.stream.stop_requested()) {
        batch_->remove(reply->first);
        reply = replies_.erase(reply);
      } else {
        ++reply;
      }
    }
  }

  /// Who reads too slowly must not keep others from what it has.
  void end_standing(std::chrono::steady_clock::time_point now) {
    for (auto reply = replies_.begin(); reply != replies_.end();) {
      if (!reply->second.stands_since || now - *reply->second.stands_since < longest_stand) {
        ++reply;
        continue;
      }
      reply->second.stream.finish(
          {Errc::queue_full,
           fmt::format("the answer was not read for {} s while all places were taken", longest_stand.count())});
      batch_->remove(reply->first);
      reply = replies_.erase(reply);
    }
  }

  void pass_on(const Chosen& chosen) {
    const auto found = replies_.find(chosen.text);
    auto& [stream, answer, stands_since] = found->second;
    Result<void> outcome;
    Answer::Step step;
    if (chosen.token == no_token)
      outcome = fail(Errc::internal, "the model's numbers are no numbers any more (overflow, or damaged weights)");
    else
      step = answer.take(chosen);
    if (step.item)
      outcome = stream.write(*step.item);
    if (outcome && step.written)
      gauges_.written.add();
    if (outcome && !step.ended)
      return;
    if (outcome)
      stream.finish();
    else
      stream.finish(outcome.error());
    batch_->remove(chosen.text);
    replies_.erase(found);
  }

  void fail_all(const gpuactors::Error& error) {
    for (auto& [id, reply] : replies_) {
      batch_->remove(id);
      reply.stream.finish(error);
    }
    replies_.clear();
  }

  Gauges gauges_{metrics()};
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Batch> batch_;
  /// Where requests are texts.
  std::optional<Language> language_;
  std::string fingerprint_;
  std::map<TextId, Reply> replies_;
  TextId last_id_ = 0;
  bool stepping_ = false;
  /// For requests without a seed.
  std::mt19937_64 random_{std::random_device{}()};
};

GPUACTORS_ACTOR("llm/decoder", Replica, v1::ReplicaConfig)
    .method("describe", &Replica::describe)
    .method("generate", &Replica::generate);

} // namespace

} // namespace llm
