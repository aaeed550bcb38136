#pragma once

#include <span>

namespace millrace {

/**
 * @brief Area under the curve of receiver operating characteristics, exact: the share of pairs of a
 *        positive and a negative example of which the positive one has the higher score; a tie
 *        counts half.
 * @param scores  any increasing function of the probability: logits, say
 * @param labels  above 0.5: positive
 * @return NaN without a positive or without a negative example, or if a score is NaN
 * @throws std::invalid_argument if there are not as many labels as scores
 */
[[nodiscard]] double area_under_curve(std::span<const float> scores, std::span<const float> labels);

/**
 * @brief Mean binary cross-entropy, in nats, computed in double. Of no examples 0.
 * @throws std::invalid_argument if there are not as many labels as logits
 */
[[nodiscard]] double mean_log_loss(std::span<const float> logits, std::span<const float> labels);

}  // namespace millrace
