// A classifier of texts behind gpuactors-serve, in batches: in which of the languages of its file a text is written,
// and how sure that is (docs/guide/serving.md). This file is a plugin:
//
//   printf 'english the cat sat on the mat\ngerman die Katze lag auf der Matte\n' > languages.txt
//   gpuactors-serve --model language=languages.txt,actor=examples/language --plugin ./example_served_texts.so
//
// A text becomes a row: how often each triple of its bytes comes, hashed to a column, and all of it scaled to a length
// of 1. Each line of the file becomes one, too. One matrix product compares all texts of a batch with all languages.
#include <gpuactors/gpuactors.hpp>
#include <gpuactors/v1/serving.pb.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using google::protobuf::Empty;
using gpuactors::Result;
using gpuactors::value_or_throw;
namespace v1 = gpuactors::v1;

namespace {

constexpr std::int64_t columns = 1'024;

// Texts in a message are one behind the other: the length in 4 bytes, the least first, and as many bytes.
std::string_view take_text(std::string_view& texts) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(texts.at(i))) << 8 * i;
  const auto text = texts.substr(4, length);
  texts.remove_prefix(4 + text.size());
  return text;
}

void add_text(std::string& texts, std::string_view text) {
  for (int shift = 0; shift < 32; shift += 8)
    texts += static_cast<char>(text.size() >> shift & 0xFF);
  texts += text;
}

// Adds the triples of a text, with a space before and behind it, to a row of zeros; small and large letters of ASCII
// are the same.
void count_triples(std::string_view text, std::span<float> row) {
  const auto at = [text](std::size_t i) {
    const auto c = i == 0 || i > text.size() ? ' ' : text[i - 1];
    return static_cast<std::uint32_t>(static_cast<unsigned char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto hash = (at(i) << 16 | at(i + 1) << 8 | at(i + 2)) * 2'654'435'761U;
    row[(hash >> 16) % columns] += 1;
  }
  float squares = 0;
  for (const auto count : row)
    squares += count * count;
  if (squares > 0)
    for (auto& count : row)
      count /= std::sqrt(squares);
}

class Language : public gpuactors::FractionalGPUActor {
public:
  Language(gpuactors::Init init, const v1::ReplicaConfig& config) : FractionalGPUActor(std::move(init)) {
    if (const auto longest = config.settings().find("longest"); longest != config.settings().end())
      longest_ = std::stoul(longest->second);
    const auto file = value_or_throw(tensors().get(config.file()));
    const auto bytes = value_or_throw(file.host<std::uint8_t>());
    learn({bytes.begin(), bytes.end()});
    auto& stream = gpu().stream();
    const auto count = static_cast<std::int64_t>(names_.size());
    texts_ = value_or_throw(stream.tensor(gpuactors::DType::f32, {config.max_rows(), columns}));
    likeness_ = value_or_throw(stream.tensor(gpuactors::DType::f32, {config.max_rows(), count}));
    rows_.resize(static_cast<std::size_t>(config.max_rows() * columns));
    likely_.resize(static_cast<std::size_t>(config.max_rows() * count));
  }

  // One text a row to one name and one number a row: no row_shape.
  v1::ReplicaDescription describe(const Empty&) {
    v1::ReplicaDescription description;
    const auto fill = [](v1::ReplicaTensor& tensor, const char* name, const char* datatype) {
      tensor.set_name(name);
      tensor.set_datatype(datatype);
    };
    fill(*description.add_inputs(), "text", "BYTES");
    fill(*description.add_outputs(), "language", "BYTES");
    fill(*description.add_outputs(), "score", "FP32");
    description.set_memory_used_bytes(gpu().memory_used());
    return description;
  }

  Result<v1::ReplicaReply> infer(const v1::ReplicaBatch& batch) {
    std::fill(rows_.begin(), rows_.end(), 0.0F);
    std::string_view texts = batch.inputs(0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.rows()); ++i) {
      const auto text = take_text(texts);
      // An invalid_argument blames the input: only the request with this text fails, not those in its batch.
      if (text.size() > longest_)
        return gpuactors::fail(gpuactors::Errc::invalid_argument, "a text has " + std::to_string(text.size())
                                                                      + " bytes: it may have "
                                                                      + std::to_string(longest_));
      count_triples(text, std::span{rows_}.subspan(i * columns, columns));
    }
    auto& stream = gpu().stream();
    GPUACTORS_TRY(stream.upload(texts_, rows_));
    GPUACTORS_TRY(stream.gemm(texts_, languages_, likeness_));
    GPUACTORS_TRY(stream.download(likely_, likeness_));
    GPUACTORS_TRY(stream.synchronize());
    return best_of(static_cast<std::size_t>(batch.rows()));
  }

private:
  // Of each row the most alike language; none for a text that has nothing in common with any, as one of no bytes.
  [[nodiscard]] v1::ReplicaReply best_of(std::size_t rows) const {
    v1::ReplicaReply reply;
    auto& labels = *reply.add_outputs();
    auto& scores = *reply.add_outputs();
    for (std::size_t i = 0; i < rows; ++i) {
      const auto* likely = likely_.data() + i * names_.size();
      const auto* best = std::max_element(likely, likely + names_.size());
      add_text(labels, *best > 0 ? std::string_view{names_[static_cast<std::size_t>(best - likely)]} : "");
      scores.append(reinterpret_cast<const char*>(best), sizeof(float));
    }
    return reply;
  }

  // Each line is the name of a language and a text in it.
  void learn(const std::string& file) {
    std::vector<float> rows;
    std::istringstream lines{file};
    for (std::string line; std::getline(lines, line);) {
      const auto space = line.find(' ');
      if (space == std::string::npos || space == 0)
        throw std::runtime_error{"a line of the file is not a language and a text"};
      names_.push_back(line.substr(0, space));
      rows.resize(rows.size() + columns);
      count_triples(std::string_view{line}.substr(space + 1), std::span{rows}.last(columns));
    }
    if (names_.empty())
      throw std::runtime_error{"the file has no languages"};
    // A column for each language.
    std::vector<float> table(rows.size());
    for (std::size_t i = 0; i < names_.size(); ++i)
      for (std::size_t j = 0; j < columns; ++j)
        table[j * names_.size() + i] = rows[i * columns + j];
    languages_ = value_or_throw(gpu().stream().tensor_from(table, {columns, static_cast<std::int64_t>(names_.size())}));
  }

  std::size_t longest_ = 100'000;
  std::vector<std::string> names_;
  std::vector<float> rows_;
  std::vector<float> likely_;
  gpuactors::Tensor languages_;
  gpuactors::Tensor texts_;
  gpuactors::Tensor likeness_;
};

GPUACTORS_ACTOR("examples/language", Language, v1::ReplicaConfig)
    .method("describe", &Language::describe)
    .method("infer", &Language::infer);

} // namespace
