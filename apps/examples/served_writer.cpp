// A generative model of your own behind gpuactors-serve: it goes on with a text, character by character, for all of its
// requests together, one matrix product a step (docs/guide/serving.md). This file is a plugin:
//
//   gpuactors-serve --model writer=some-text.txt,actor=examples/writer --plugin ./example_served_writer.so
//   curl -N -d '{"text": "Once upon", "max_tokens": 20}' http://127.0.0.1:8000/v2/models/writer/generate_stream
//
// Requests with one sequence_id are a conversation: each goes on where the one before has ended, so that its text is
// only what is new. What has been said is kept here, in the replica, for as long as the server knows the conversation.
//
// What it has learned is how often each character follows another at each of a few distances in the file. That writes
// no novels; a language model takes its place by other weights, and a cache for each request.
#include <gpuactors/gpuactors.hpp>
#include <gpuactors/v1/serving.pb.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

using google::protobuf::Empty;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::value_or_throw;
namespace v1 = gpuactors::v1;

namespace {

// How many characters back it looks.
constexpr std::int64_t distances = 6;
// Conversations that it knows. Clients that leave theirs at once make more than the server counts.
constexpr std::size_t most_conversations = 10'000;
// A client that reads slowly has so many characters waiting for it before its text stands still.
constexpr std::size_t most_waiting = 64;

// A text element of a message: its length in 4 bytes, and the bytes.
std::string text_of(const std::string& element) {
  return element.substr(4);
}

void set_text(std::string& element, const std::string& text) {
  for (int shift = 0; shift < 32; shift += 8)
    element += static_cast<char>(text.size() >> shift & 0xFF);
  element += text;
}

// What a request says beside the text.
struct Wishes {
  std::size_t max_tokens = 100;
  double temperature = 0.5;
  std::string stop;
  std::uint64_t seed = 0;
};

// One request while it runs.
struct Text {
  gpuactors::OpenStream<v1::GenerateReply> reply;
  Wishes wishes;
  // The end of it.
  std::string so_far;
  std::size_t written;
  std::mt19937_64 random;
  // The conversation that goes on with what it writes; empty for none.
  std::string conversation;
};

// The end of what has been said in a conversation, and when.
struct Said {
  std::string text;
  std::chrono::steady_clock::time_point when;
};

class Writer : public gpuactors::FractionalGPUActor {
public:
  Writer(gpuactors::Init init, const v1::ReplicaConfig& config)
    : FractionalGPUActor(std::move(init)), most_(config.max_running()),
      longest_pause_(std::chrono::milliseconds{config.sequence_idle_ms()}) {
    const auto file = value_or_throw(tensors().get(config.file()));
    const auto bytes = value_or_throw(file.host<std::uint8_t>());
    learn({bytes.begin(), bytes.end()});
  }

  v1::ReplicaDescription describe(const Empty&) {
    v1::ReplicaDescription description;
    for (auto* text : {description.add_inputs(), description.add_outputs()}) {
      text->set_name("text");
      text->set_datatype("BYTES");
      text->add_shape(1);
    }
    description.set_sequences(v1::SEQUENCE_MEMORY_STATE);
    description.set_memory_used_bytes(gpu().memory_used());
    // This is called about every second.
    std::erase_if(said_, [this](const auto& one) { return clock::now() - one.second.when > 2 * longest_pause_; });
    return description;
  }

  // Keeps the reply, and goes on with it in steps behind the calls that have come.
  Result<void> generate(const v1::GenerateRequest& request, gpuactors::ReplyStream<v1::GenerateReply>& out) {
    GPUACTORS_LET(wishes, read_parameters(request));
    const auto& place = request.sequence();
    const auto before = said_.find(place.id());
    const auto so_far =
        (before == said_.end() || place.start() ? "" : before->second.text) + text_of(request.inputs(0).data());
    if (before == said_.end() && !place.id().empty() && !place.start())
      return gpuactors::fail(Errc::invalid_argument, "what was said in this conversation is forgotten: start it anew");
    if (before == said_.end() && !place.id().empty() && said_.size() >= most_conversations)
      return gpuactors::fail(Errc::queue_full, "there are too many conversations");
    GPUACTORS_LET(reply, out.keep());
    if (before != said_.end())
      said_.erase(before);
    // One that its client has left, which is not seen yet, does not go on with it.
    for (auto& other : running_)
      if (other.conversation == place.id())
        other.conversation.clear();
    running_.push_back(
        {std::move(reply), wishes, so_far, 0, std::mt19937_64{wishes.seed}, place.end() ? "" : place.id()});
    remember(running_.back());
    if (!std::exchange(stepping_, true))
      post([this] { step(); });
    return {};
  }

private:
  static Result<Wishes> read_parameters(const v1::GenerateRequest& request) {
    Wishes wishes;
    for (const auto& [name, value] : request.parameters()) {
      const bool whole = value.has_int_value();
      // What JSON writes as 1 is no double.
      const auto number = value.double_value() + static_cast<double>(value.int_value());
      if (name == "max_tokens" && value.int_value() > 0)
        wishes.max_tokens = static_cast<std::size_t>(value.int_value());
      else if (name == "temperature" && (whole || value.has_double_value()) && number >= 0)
        wishes.temperature = number;
      else if (name == "seed" && whole)
        wishes.seed = static_cast<std::uint64_t>(value.int_value());
      else if (name == "stop" && !value.string_value().empty())
        wishes.stop = value.string_value();
      else
        return gpuactors::fail(
            Errc::invalid_argument,
            "the parameter \"" + name
                + "\" is none of max_tokens (from 1), temperature (from 0), seed (a whole number) and stop (a text)");
    }
    return wishes;
  }

  // -- learning --------------------------------------------------------------------------------

  // For each distance a row for each character: how likely each character comes that far behind it, as logarithms.
  void learn(const std::string& text) {
    for (const char c : text)
      if (static_cast<unsigned char>(c) > 127)
        throw std::runtime_error{"the file is not text of ASCII characters"};
      else if (place_[static_cast<std::size_t>(c)] < 0) {
        place_[static_cast<std::size_t>(c)] = static_cast<int>(characters_.size());
        characters_ += c;
      }
    if (text.size() <= distances)
      throw std::runtime_error{"the file has too little text"};
    const auto count = characters_.size();
    std::vector<float> table(distances * count * count, 0.01F);
    for (std::size_t at = 0; at < text.size(); ++at)
      for (std::size_t back = 1; back <= std::min<std::size_t>(at, distances); ++back)
        table[((back - 1) * count + place(text[at - back])) * count + place(text[at])] += 1;
    for (std::size_t row = 0; row < distances * count; ++row) {
      const auto begin = table.begin() + static_cast<std::ptrdiff_t>(row * count);
      float sum = 0;
      std::for_each(begin, begin + static_cast<std::ptrdiff_t>(count), [&](float value) { sum += value; });
      std::for_each(begin, begin + static_cast<std::ptrdiff_t>(count),
                    [&](float& value) { value = std::log(value / sum); });
    }
    auto& stream = gpu().stream();
    const auto width = static_cast<std::int64_t>(count);
    table_ = value_or_throw(stream.tensor_from(table, {distances * width, width}));
    seen_ = value_or_throw(stream.tensor(gpuactors::DType::f32, {most_, distances * width}));
    next_ = value_or_throw(stream.tensor(gpuactors::DType::f32, {most_, width}));
  }

  [[nodiscard]] std::size_t place(char c) const {
    return static_cast<std::size_t>(place_[static_cast<std::size_t>(c)]);
  }

  // -- writing ---------------------------------------------------------------------------------

  // One character for each text whose client has room for it.
  void step() {
    std::erase_if(running_, [](const auto& text) { return text.reply.stop_requested(); });
    std::vector<Text*> now;
    // There may be more for a moment: the next requests come when clients have gone, not when that is seen here.
    for (auto& text : running_)
      if (text.reply.waiting() < most_waiting && now.size() < static_cast<std::size_t>(most_))
        now.push_back(&text);
    if (const auto done = now.empty() ? Result<void>{} : write(now); !done)
      for (auto& text : running_)
        text.reply.finish(done.error());
    std::erase_if(running_, [](const auto& text) { return text.reply.stop_requested(); });
    stepping_ = !running_.empty();
    if (stepping_ && now.empty())
      post_after(std::chrono::milliseconds{5}, [this] { step(); });
    else if (stepping_)
      post([this] { step(); });
  }

  Result<void> write(const std::vector<Text*>& texts) {
    const auto width = characters_.size();
    std::vector<float> seen(static_cast<std::size_t>(most_) * distances * width);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto& text = texts[i]->so_far;
      for (std::size_t back = 1; back <= std::min<std::size_t>(text.size(), distances); ++back)
        if (const auto c = static_cast<unsigned char>(text[text.size() - back]); c < 128 && place_[c] >= 0)
          seen[(i * distances + back - 1) * width + static_cast<std::size_t>(place_[c])] = 1;
    }
    std::vector<float> next(static_cast<std::size_t>(most_) * width);
    auto& stream = gpu().stream();
    GPUACTORS_TRY(stream.upload(seen_, seen));
    GPUACTORS_TRY(stream.gemm(seen_, table_, next_));
    GPUACTORS_TRY(stream.download(next, next_));
    GPUACTORS_TRY(stream.synchronize());
    for (std::size_t i = 0; i < texts.size(); ++i)
      append(*texts[i], next.data() + i * width);
    return {};
  }

  void append(Text& text, const float* likely) {
    text.so_far += characters_[choose(text, likely)];
    v1::GenerateReply item;
    auto& output = *item.add_outputs();
    output.set_name("text");
    output.add_shape(1);
    set_text(*output.mutable_data(), text.so_far.substr(text.so_far.size() - 1));
    remember(text);
    if (const auto written = text.reply.write(std::move(item)); !written)
      return text.reply.finish(written.error());
    const auto& wishes = text.wishes;
    const auto own = std::string_view{text.so_far}.substr(text.so_far.size() - std::min(++text.written, kept(wishes)));
    if (text.written >= wishes.max_tokens || (!wishes.stop.empty() && own.ends_with(wishes.stop)))
      return text.reply.finish();
    if (text.so_far.size() > 2 * kept(wishes))
      text.so_far.erase(0, text.so_far.size() - kept(wishes));
  }

  // At each step, since a client may stop its text at any: the next one goes on from there.
  void remember(const Text& text) {
    if (!text.conversation.empty())
      said_[text.conversation] = {
          text.so_far.substr(text.so_far.size() - std::min<std::size_t>(text.so_far.size(), distances)), clock::now()};
  }

  // How much of a text is still looked at.
  static std::size_t kept(const Wishes& wishes) {
    return std::max<std::size_t>(distances, wishes.stop.size());
  }

  [[nodiscard]] std::size_t choose(Text& text, const float* likely) const {
    const auto count = characters_.size();
    const auto* best = std::max_element(likely, likely + count);
    if (text.wishes.temperature == 0)
      return static_cast<std::size_t>(best - likely);
    std::vector<double> weights;
    for (std::size_t i = 0; i < count; ++i)
      weights.push_back(
          std::exp((static_cast<double>(likely[i]) - static_cast<double>(*best)) / text.wishes.temperature));
    return std::discrete_distribution<std::size_t>{weights.begin(), weights.end()}(text.random);
  }

  using clock = std::chrono::steady_clock;

  std::int64_t most_;
  std::chrono::milliseconds longest_pause_;
  std::map<std::string, Said> said_;
  std::string characters_;
  std::array<int, 128> place_ = [] {
    std::array<int, 128> none;
    none.fill(-1);
    return none;
  }();
  gpuactors::Tensor table_;
  gpuactors::Tensor seen_;
  gpuactors::Tensor next_;
  std::vector<Text> running_;
  bool stepping_ = false;
};

GPUACTORS_ACTOR("examples/writer", Writer, v1::ReplicaConfig)
    .method("describe", &Writer::describe)
    .method("generate", &Writer::generate);

} // namespace
