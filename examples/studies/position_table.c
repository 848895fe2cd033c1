/* position_table.c - what is in the table of sines and cosines?

   Tutorials draw the table as a heat map and as curves. One claims that low dimensions change
   slowly and high ones fast; another claims the opposite. They claim that every position has a
   vector of its own, that similarity peaks at a position and decays with the distance, and that the
   vector of position p + k is a rotation of that of p.

   The table is the library's (trf_position_table, the paper's rule), 64 wide, with 100 positions.
   The speed of a dimension is its number of sign changes. */
#include "study.h"

enum { N = 100, D = 64, SHOWN = 50 };

static double cosine(const trf_real *a, const trf_real *b)
{
    double ab = 0, aa = 0, bb = 0;
    int i;
    for (i = 0; i < D; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* The formula; the table beside a second one that begins later; the rotation. */
static void identities(struct study *s, const trf_tensor *table)
{
    trf_tensor later = study_tensor(s, N - 30, D);
    double formula = 0, rotation = 0;
    int p, k, j;
    for (p = 0; p < N; p++) {
        for (j = 0; j < D; j++) {
            double angle = p / pow(10000, (j / 2 * 2) / (double)D);
            double apart = fabs((double)table->data[p * D + j] - (j % 2 ? cos(angle) : sin(angle)));
            if (!(apart <= formula)) formula = apart;
        }
    }
    STUDY_TRY(trf_position_table(TRF_POSITIONS_INTERLEAVED, 30, &later, &err));
    study_must(s, !memcmp(later.data, table->data + 30 * D, (N - 30) * D * sizeof(trf_real)),
               "a table from position 30 on is a part of the table");
    for (p = 0; p < SHOWN; p++) {
        for (k = 0; k < SHOWN; k++) {           /* of pair i by the angle k 10000^(-2i/d) */
            for (j = 0; j < D; j += 2) {
                const trf_real *now = table->data + p * D + j, *then = now + k * D;
                double a = k * pow(10000, -j / (double)D);
                double up = (double)now[0] * cos(a) + (double)now[1] * sin(a);
                double across = (double)now[1] * cos(a) - (double)now[0] * sin(a);
                double apart = fmax(fabs(up - (double)then[0]), fabs(across - (double)then[1]));
                if (!(apart <= rotation)) rotation = apart;
            }
        }
    }
    study_must(s, formula < 1e-6, "the table follows the formula: %g away", formula);
    study_must(s, rotation < 1e-6, "PE(p + k) is a rotation of PE(p): %g away", rotation);
    study_claim(s, "PE(p + k) is a rotation of PE(p)", rotation < 1e-6 ? STUDY_YES : STUDY_NO,
                "%d positions, %d offsets: at most %.1e apart", SHOWN, SHOWN, rotation);
}

/* How often the dimensions change their sign. */
static void speed(struct study *s, const trf_tensor *table)
{
    static const int shown[] = {0, 1, 4, 10, 20, 30, 40, 62, 63};
    static const char *const names[] = {"dim 0", "dim 4", "dim 10", "dim 20"};
    double x[N], y[4][N];
    struct curve curves[4];
    struct panel panel;
    int changes[D], j, p, k;
    for (j = 0; j < D; j++) {
        changes[j] = 0;
        for (p = 1; p < N; p++)
            changes[j] += (table->data[p * D + j] > 0) != (table->data[(p - 1) * D + j] > 0);
    }
    study_columns(s, "dimension | sign changes in 100 positions | wavelength");
    for (k = 0; k < STUDY_COUNT(shown); k++)
        study_row(s, "%d | %d | %.0f", shown[k], changes[shown[k]],
                  6.283185307 * pow(10000, shown[k] / 2 * 2 / (double)D));
    for (k = 0; k < 4; k++) {
        for (p = 0; p < N; p++) {
            x[p] = p;
            y[k][p] = (double)table->data[p * D + shown[k ? k + 1 : 0]];
        }
        curves[k] = study_curve(names[k], x, y[k], N);
        curves[k].points = 0;
    }
    panel = study_panel("low dimensions are fast", "position", "value", curves, 4);
    study_curves(s, "curves", &panel, 1, 1);
    for (j = 2; j < D; j++)
        study_must(s, changes[j] <= changes[j - 2] + 1, "higher dimensions are not faster: %d", j);
    study_claim(s, "low dimensions are slow, high ones fast", STUDY_NO,
                "%d sign changes in dimension 0, %d in dimension 62", changes[0], changes[62]);
    study_claim(s, "low dimensions are fast, high ones slow", STUDY_YES,
                "%d sign changes in dimension 0, %d in dimension 62", changes[0], changes[62]);
}

static void similarity(struct study *s, const trf_tensor *table)
{
    static float similar[SHOWN * SHOWN];
    static const int from[] = {0, 10, 25, 40};
    static const char *const names[] = {"to position 0", "to 10", "to 25", "to 40"};
    double x[SHOWN], y[4][SHOWN], spread = 0, nearest = 1;
    struct curve curves[4];
    struct panel panel;
    struct heat_map map = study_map("cosine similarity", similar, SHOWN, SHOWN);
    int p, q, k, rises = 0;
    for (p = 0; p < SHOWN; p++) {
        x[p] = p;
        for (q = 0; q < SHOWN; q++)
            similar[p * SHOWN + q] = (float)cosine(table->data + p * D, table->data + q * D);
        for (k = 0; k < 4; k++)
            y[k][p] = cosine(table->data + p * D, table->data + from[k] * D);
        for (q = 0; q < p; q++) nearest = fmin(nearest, 1 - (double)similar[p * SHOWN + q]);
    }
    for (k = 0; k < SHOWN; k++) {
        for (p = 0; p + k < SHOWN; p++)
            spread = fmax(spread, fabs((double)similar[p * SHOWN + p + k] - (double)similar[k]));
        rises += k > 0 && similar[k] > similar[k - 1];
    }
    for (k = 0; k < 4; k++) curves[k] = study_curve(names[k], x, y[k], SHOWN);
    panel = study_panel("similarity of positions", "position", "cosine", curves, 4);
    map.row_label = map.column_label = "position";
    study_heat_maps(s, "similarity", "similarity of positions", &map, 1, 1, 0, 1);
    study_numbers(s, "cosines", &map);
    study_curves(s, "similarity-curves", &panel, 1, 1);
    study_table(s, "similarity", "distance | cosine");
    for (k = 0; k < SHOWN; k = k ? k * 2 : 1) study_row(s, "%d | %.3f", k, (double)similar[k]);
    study_must(s, nearest > 1e-3, "no two positions are the same: %g", nearest);
    study_must(s, spread < 1e-6, "the cosine depends on the distance alone: %g", spread);
    study_claim(s, "every position has a vector of its own", STUDY_YES,
                "the two most similar ones of %d have cosine %.3f", SHOWN, 1 - nearest);
    study_claim(s, "the similarity of two positions depends only on their distance", STUDY_YES,
                "cosines at one distance differ by at most %.0e", spread);
    study_claim(s, "similarity decays smoothly with the distance", rises ? STUDY_NO : STUDY_YES,
                "it falls from %.2f at 1 to %.2f at 10 and %.2f at 49, but rises at %d of %d steps",
                (double)similar[1], (double)similar[10], (double)similar[49], rises, SHOWN - 1);
}

/* The three rules of the library, as pictures and as numbers. */
static void rules(struct study *s)
{
    static const char *const names[] = {"interleaved", "halves-n1", "halves"};
    struct heat_map maps[3];
    int i;
    for (i = 0; i < 3; i++) {
        trf_tensor table = study_tensor(s, N, D);
        STUDY_TRY(trf_position_table((trf_positions)i, 0, &table, &err));
        maps[i] = study_map(names[i], table.data, N, D);
        maps[i].row_label = "position";
        maps[i].column_label = "dimension";
        study_numbers(s, names[i], &maps[i]);
    }
    study_heat_maps(s, "rules", "rules of position tables", maps, 3, 3, -1, 1);
}

int main(int argc, char **argv)
{
    struct study s = study_begin(argc, argv, "position_table", "what is in the position table");
    trf_tensor table = study_tensor(&s, N, D);
    struct heat_map map;
    STUDY_TRY(trf_position_table(TRF_POSITIONS_INTERLEAVED, 0, &table, &err));
    map = study_map("sin and cos in turn", table.data, N, D);
    map.row_label = "position";
    map.column_label = "dimension";
    study_heat_maps(&s, "", "position table", &map, 1, 1, -1, 1);
    identities(&s, &table);
    speed(&s, &table);
    similarity(&s, &table);
    rules(&s);
    return study_end(&s);
}
