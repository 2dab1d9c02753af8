// SPDX-License-Identifier: Apache-2.0
// The simulated disk is as bad as it says, and no worse: what was synced stays, a sync that failed forgets.
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "disk.h"

enum { SECTOR = 512, SECTORS = 8, DISKS = 200 };

static const struct bt_disk_file file = {.number = 1, .kind = BT_DISK_SEGMENT};

static struct bt_disk *fresh(struct sim_disk **d, uint64_t seed)
{
    *d = sim_disk_new(&(struct sim_disk_config){.seed = seed});
    assert_non_null(*d);
    struct bt_disk *disk = sim_disk_device(*d);
    assert_int_equal(disk->ops->create(disk, file), 0);
    return disk;
}

static void write_sectors(struct bt_disk *d, uint32_t first, uint8_t what)
{
    uint8_t bytes[SECTOR * SECTORS];
    memset(bytes, what, sizeof bytes);
    assert_int_equal(d->ops->write(d, file, (uint64_t)first * SECTOR, bytes, sizeof bytes), 0);
}

// How many of the sectors from `first` on hold this byte; each holds one byte all over.
static uint32_t holding(struct bt_disk *d, uint32_t first, uint8_t what)
{
    uint8_t bytes[SECTOR * SECTORS];
    uint32_t got = 0, n = 0;
    int code = d->ops->read(d, file, (uint64_t)first * SECTOR, bytes, sizeof bytes, &got);
    assert_true(code == 0 || code == ENOENT);
    for (uint32_t i = 0; i < got; i += SECTOR) {
        assert_memory_equal(bytes + i, bytes + i + 1, SECTOR - 1);
        n += bytes[i] == what;
    }
    return n;
}

static void r356_what_was_synced_stays(void **state)
{
    (void)state;
    uint32_t lost = 0, kept = 0, torn = 0;
    for (uint64_t seed = 1; seed <= DISKS; seed++) {
        struct sim_disk *d;
        struct bt_disk *disk = fresh(&d, seed);
        write_sectors(disk, 0, 'a');
        assert_int_equal(disk->ops->sync(disk, file), 0);
        assert_int_equal(disk->ops->sync_names(disk), 0);
        write_sectors(disk, SECTORS, 'b');
        sim_disk_crash(d, sim_disk_done_at(d), true);
        assert_int_equal(holding(disk, 0, 'a'), SECTORS);
        uint32_t left = holding(disk, SECTORS, 'b');
        lost += left == 0;
        kept += left == SECTORS;
        torn += left > 0 && left < SECTORS;
        sim_disk_free(d);
    }
    assert_true(lost > 10 && kept > 10 && torn > 10);
}

static void r356_a_process_that_ends_loses_nothing_it_wrote(void **state)
{
    (void)state;
    struct sim_disk *d;
    struct bt_disk *disk = fresh(&d, 1);
    write_sectors(disk, 0, 'a');
    sim_disk_crash(d, sim_disk_done_at(d), false);
    assert_int_equal(holding(disk, 0, 'a'), SECTORS);
    sim_disk_free(d);
}

static void r356_a_name_needs_its_own_sync(void **state)
{
    (void)state;
    uint32_t gone = 0;
    for (uint64_t seed = 1; seed <= DISKS; seed++) {
        struct sim_disk *d;
        struct bt_disk *disk = fresh(&d, seed);
        write_sectors(disk, 0, 'a');
        assert_int_equal(disk->ops->sync(disk, file), 0);
        sim_disk_crash(d, sim_disk_done_at(d), true);
        uint32_t left = holding(disk, 0, 'a');
        assert_true(left == 0 || left == SECTORS);
        gone += left == 0;
        sim_disk_free(d);
    }
    assert_true(gone > 50 && gone < 150);
}

// After a sync that failed the next one succeeds and has nothing to write; what is shown is not what lies there.
static void r372_a_failed_sync_forgets(void **state)
{
    (void)state;
    uint32_t lost = 0;
    for (uint64_t seed = 1; seed <= DISKS; seed++) {
        struct sim_disk *d;
        struct bt_disk *disk = fresh(&d, seed);
        assert_int_equal(disk->ops->sync_names(disk), 0);
        write_sectors(disk, 0, 'a');
        sim_disk_faults(d, &(struct sim_disk_config){.sync_fails = 1});
        assert_int_equal(disk->ops->sync(disk, file), EIO);
        sim_disk_faults(d, &(struct sim_disk_config){.sync_fails = 0});
        assert_int_equal(disk->ops->sync(disk, file), 0);
        assert_int_equal(holding(disk, 0, 'a'), SECTORS);
        sim_disk_crash(d, sim_disk_done_at(d), true);
        lost += holding(disk, 0, 'a') < SECTORS;
        sim_disk_free(d);
    }
    assert_true(lost > DISKS / 2);
}

// A crash stops the operations where they are: those after it never were.
static void r356_a_crash_in_the_middle(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= DISKS; seed++) {
        struct sim_disk *d;
        struct bt_disk *disk = fresh(&d, seed);
        assert_int_equal(disk->ops->sync_names(disk), 0);
        write_sectors(disk, 0, 'a');
        uint64_t written = sim_disk_done_at(d);
        assert_int_equal(disk->ops->sync(disk, file), 0);
        uint64_t synced = sim_disk_done_at(d);
        write_sectors(disk, SECTORS, 'b');
        assert_true(written < synced && synced < sim_disk_done_at(d));
        sim_disk_crash(d, written + (synced - written) / 2, seed % 2 == 0);
        assert_int_equal(holding(disk, SECTORS, 'b'), 0);
        assert_true(seed % 2 == 0 || holding(disk, 0, 'a') == SECTORS);
        sim_disk_free(d);
    }
}

static void r356_full_slow_and_failing(void **state)
{
    (void)state;
    struct sim_disk *d;
    struct bt_disk *disk = fresh(&d, 3);
    sim_disk_faults(d, &(struct sim_disk_config){.capacity = 5 * SECTOR});
    uint8_t bytes[SECTOR * SECTORS] = {1};
    assert_int_equal(disk->ops->write(disk, file, 0, bytes, sizeof bytes), ENOSPC);
    sim_disk_faults(d, &(struct sim_disk_config){.write_fails = 1, .read_fails = 1, .slow = 1, .stalls = 1});
    uint64_t before = sim_disk_done_at(d);
    assert_int_equal(disk->ops->write(disk, file, 0, bytes, sizeof bytes), EIO);
    assert_true(sim_disk_done_at(d) - before >= 250000000);
    uint32_t got;
    assert_int_equal(disk->ops->read(disk, file, 0, bytes, SECTOR, &got), EIO);
    assert_int_equal(disk->ops->read(disk, (struct bt_disk_file){2, BT_DISK_SEGMENT}, 0, bytes, SECTOR, &got), ENOENT);
    assert_int_equal(disk->ops->write(disk, file, 7, bytes, SECTOR), EINVAL);
    assert_int_equal(disk->ops->create(disk, file), EEXIST);
    const uint64_t *seen = sim_disk_seen(d);
    assert_true(seen[SIM_DISK_FULL] == 1 && seen[SIM_DISK_WRITE_FAILED] == 1 && seen[SIM_DISK_SLOW] >= 1);
    sim_disk_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r356_what_was_synced_stays),
        cmocka_unit_test(r356_a_process_that_ends_loses_nothing_it_wrote),
        cmocka_unit_test(r356_a_name_needs_its_own_sync),
        cmocka_unit_test(r372_a_failed_sync_forgets),
        cmocka_unit_test(r356_a_crash_in_the_middle),
        cmocka_unit_test(r356_full_slow_and_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
