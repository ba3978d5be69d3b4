// Reads the expressions of a template.
#pragma once

#include <apps/llm/chat/lexer.hpp>
#include <apps/llm/chat/syntax.hpp>

#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace llm::chat {

/// Expressions or tags in each other, at most.
inline constexpr int most_in_each_other = 100;

/// Goes through tokens and makes expressions of them, by Jinja's rules of what binds how strongly. Every function
/// returns an error that names line and construct for what is none, or is unknown here.
class ExpressionReader {
public:
  explicit ExpressionReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
    // nop
  }

protected:
  [[nodiscard]] const Token& now() const {
    return tokens_[at_];
  }

  [[nodiscard]] const Token& after() const {
    return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_];
  }

  void skip() {
    if (at_ + 1 < tokens_.size())
      ++at_;
  }

  [[nodiscard]] bool is_name(std::string_view name) const {
    return now().kind == Token::Kind::name && now().text == name;
  }

  [[nodiscard]] bool is_sign(std::string_view sign) const {
    return now().kind == Token::Kind::sign && now().text == sign;
  }

  bool skip_name(std::string_view name);
  bool skip_sign(std::string_view sign);
  Result<void> expect_sign(std::string_view sign);
  Result<std::string> expect_name(std::string_view what);
  [[nodiscard]] gpuactors::Failure unexpected(std::string_view wanted) const;
  [[nodiscard]] gpuactors::Failure refuse_here(std::string_view what) const {
    return refuse(now().line, what);
  }

  /// One expression, or several with commas between them: a tuple.
  /// @param has_choice whether `a if b else c` may stand there without brackets.
  Result<ExpressionPtr> read_tuple(bool has_choice = true, bool is_in_brackets = false);
  Result<ExpressionPtr> read_expression(bool has_choice = true);
  /// Reads `| filter | filter`; the first of them is applied to `subject`, which may be null.
  Result<ExpressionPtr> read_filters(ExpressionPtr subject);

private:
  Result<ExpressionPtr> read_choice();
  Result<ExpressionPtr> read_either();
  Result<ExpressionPtr> read_both();
  Result<ExpressionPtr> read_negation();
  Result<ExpressionPtr> read_comparison();
  Result<ExpressionPtr> read_sum();
  Result<ExpressionPtr> read_joined();
  Result<ExpressionPtr> read_product();
  Result<ExpressionPtr> read_signed(bool has_filters);
  Result<ExpressionPtr> read_primary();
  Result<ExpressionPtr> read_list();
  Result<ExpressionPtr> read_dict();
  Result<ExpressionPtr> read_postfix(ExpressionPtr subject);
  Result<ExpressionPtr> read_attribute(ExpressionPtr subject);
  Result<ExpressionPtr> read_item(ExpressionPtr subject);
  Result<ExpressionPtr> read_call(ExpressionPtr subject);
  Result<ExpressionPtr> read_filter(ExpressionPtr subject);
  /// Reads filters, tests and calls.
  Result<ExpressionPtr> read_applied(ExpressionPtr subject);
  Result<ExpressionPtr> read_test(ExpressionPtr subject);
  Result<std::vector<Argument>> read_arguments();

  /// An expression of these, or an error if it is too deep.
  Result<ExpressionPtr> make(Expression::Kind kind, int line, std::vector<ExpressionPtr> parts = {}) const;
  template <class... Parts>
  Result<ExpressionPtr> make_of(Expression::Kind kind, int line, Parts... parts) const {
    std::vector<ExpressionPtr> all;
    (all.push_back(std::move(parts)), ...);
    return make(kind, line, std::move(all));
  }
  Result<ExpressionPtr> with_arguments(ExpressionPtr expression, std::vector<Argument> arguments) const;

  std::vector<Token> tokens_;
  std::size_t at_ = 0;

protected:
  /// Counts how deep the reading is.
  class Nested {
  public:
    explicit Nested(int& depth) : depth_(&depth) {
      ++*depth_;
    }
    ~Nested() {
      --*depth_;
    }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

  private:
    int* depth_;
  };

  int depth_ = 0;
  /// The lines of the filters `safe` that were read, and are not known to change nothing.
  std::vector<int> safes_;
};

} // namespace llm::chat
