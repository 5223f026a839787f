# One `scale` set of the PE-means paper (2026), drawn anew: Rscript scale_sets.R K D FILE
#
# The recipe is that of Diaa et al. (2025), as their public generator has it: 10,000 rows in K groups of sizes
# 1 : 2 : ... : K, a separation from [0.16, 0.26] and 0 to 100 outliers drawn at random, D columns of which none is
# noise. Their seed is not said, so this is another draw of the same law. FILE: float64, column after column.
# Needs the R package clusterGeneration (in Debian r-cran-clustergeneration, with r-base-core).

suppressMessages(library(clusterGeneration))
asked <- commandArgs(trailingOnly = TRUE)
k <- as.integer(asked[1])
d <- as.integer(asked[2])
set.seed(1000 * k + d)

# The package asks again and again for the same pairs of groups: what it found is remembered, to the last bit.
direction <- clusterGeneration:::projDirTheory
known <- new.env()
sums <- function(x) { # of what tells one pair from another, as a short name
  i <- seq_along(x)
  paste(sprintf("%a", c(sum(x), sum(x * i), sum(x * sin(i)), sum(x^2), x[1])), collapse = " ")
}
assignInNamespace("projDirTheory", function(iniProjDir, mu1, Sigma1, mu2, Sigma2, ...) {
  told <- c(iniProjDir, mu1, diag(Sigma1), mu2, diag(Sigma2))
  key <- sums(told)
  if (is.null(known[[key]])) {
    known[[key]] <- direction(iniProjDir, mu1, Sigma1, mu2, Sigma2, ...)
  }
  known[[key]]
}, "clusterGeneration")

n <- 10000
sizes <- round(seq_len(k) / sum(seq_len(k)) * n)
sizes[k] <- sizes[k] + n - sum(sizes)
outliers <- sample(0:100, 1)
sizes <- sizes - round(outliers * sizes / n)
separation <- runif(1, 0.16, 0.26)

drawn <- suppressWarnings(genRandomClust(
  numClust = k, sepVal = separation, numNonNoisy = d, numReplicate = 1, clustszind = 3,
  clustSizes = sizes, numOutlier = outliers, outputDatFlag = FALSE, outputLogFlag = FALSE,
  outputEmpirical = FALSE, outputInfo = FALSE
))
writeBin(as.vector(drawn$datList[[1]]), asked[3], size = 8, endian = "little")
cat(nrow(drawn$datList[[1]]), ncol(drawn$datList[[1]]), outliers, round(separation, 4), "\n")
